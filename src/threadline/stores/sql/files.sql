-- name: files.load (id bigint)
select f.id, f.body from {{rows}} k join files f on f.id = k.id;

-- name: files.save (id bigint, said smallint, body text)
insert into files (id, said, body) select k.id, k.said, k.body from {{rows}} k where true
on conflict (id) do update set said = excluded.said, body = excluded.body;

-- name: files.drop (id bigint)
delete from files where (id) in (select k.id from {{rows}} k);

-- name: files.page
select f.id, f.body from files f where f.id > $1 order by f.id limit $2;

-- name: files.of_kind
select f.id, f.body from files f where f.said = $1 and f.id > $2 order by f.said, f.id limit $3;
