-- name: files.load (id bigint)
select f.id, f.body from {{rows}} k join files f on f.id = k.id;

-- name: files.save (id bigint, owner bigint, said smallint, size bigint, body text)
insert into files (id, owner, said, size, body)
select k.id, k.owner, k.said, k.size, k.body from {{rows}} k where true
on conflict (id) do update set said = excluded.said, body = excluded.body;

-- name: files.drop (id bigint)
delete from files where (id) in (select k.id from {{rows}} k);

-- name: files.page
select f.id, f.body from files f where f.id > $1 order by f.id limit $2;

-- name: files.of_kind
select f.id, f.body from files f where f.said = $1 and f.id > $2 order by f.said, f.id limit $3;

-- name: files.owned
select cast(coalesce(sum(f.size), 0) as bigint) from files f where f.owner = $1;
