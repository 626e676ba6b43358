-- name: audit.load (scope text, number bigint)
select a.scope, a.number, a.digest, a.body
from {{rows}} k join audit a on a.scope = k.scope and a.number = k.number
{{order 1, 2}} {{lock a}};

-- name: audit.save (scope text, number bigint, at bigint, action text, digest bytea, body text)
insert into audit (scope, number, at, action, digest, body)
select k.scope, k.number, k.at, k.action, k.digest, k.body from {{rows}} k where true;

-- name: audit.drop (scope text, number bigint)
delete from audit where (scope, number) in (select k.scope, k.number from {{rows}} k);

-- name: audit.page
select a.scope, a.number, a.digest, a.body from audit a
where a.scope = $1 and a.number < $2 and ($3 = '' or a.action = $3) and a.at >= $4
order by a.number desc limit $5;

-- name: audit.after
select a.scope, a.number, a.digest, a.body from audit a
where a.scope = $1 and a.number > $2 order by a.number limit $3;

-- name: chains.load (scope text)
select c.scope, c.count, c.digest from {{rows}} k join chains c on c.scope = k.scope
{{order c.scope}} {{lock c}};

-- name: chains.save (scope text, count bigint, digest bytea)
insert into chains (scope, count, digest)
select k.scope, k.count, k.digest from {{rows}} k where true
on conflict (scope) do update set count = excluded.count, digest = excluded.digest;

-- name: chains.drop (scope text)
delete from chains where (scope) in (select k.scope from {{rows}} k);

-- name: chains.page
select c.scope, c.count, c.digest from chains c where c.scope > $1 order by c.scope limit $2;
