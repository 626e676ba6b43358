-- name: tokens.load (hash bytea)
select t.hash, t.body from {{rows}} k join tokens t on t.hash = k.hash;

-- name: tokens.save (hash bytea, id bigint, body text)
insert into tokens (hash, id, body)
select k.hash, k.id, k.body from {{rows}} k where true
on conflict (hash) do update set body = excluded.body;

-- name: tokens.drop (hash bytea)
delete from tokens where (hash) in (select k.hash from {{rows}} k);

-- name: tokens.page
select t.hash, t.body from tokens t where t.id > $1 order by t.id limit $2;

-- name: tokens.by_id
select t.hash from tokens t where t.id = $1;
