-- name: sessions.load (id bigint)
select s.id, s.scope, s.name, s.body from {{rows}} k join sessions s on s.id = k.id
{{order s.id}} {{lock s}};

-- name: sessions.save (id bigint, scope text, name text, body text)
insert into sessions (id, scope, name, body)
select k.id, k.scope, k.name, k.body from {{rows}} k where true
on conflict (id) do update set scope = excluded.scope, name = excluded.name, body = excluded.body;

-- name: sessions.page
select s.id, s.scope, s.name, s.body from sessions s
where s.scope = $1 and (s.name, s.id) > ($2, $3) order by s.name, s.id limit $4;

-- name: names.load (scope text, name text)
select n.scope, n.name, n.session from {{rows}} k join names n on n.scope = k.scope and n.name = k.name;

-- name: names.save (scope text, name text, session bigint)
insert into names (scope, name, session) select k.scope, k.name, k.session from {{rows}} k where true
on conflict (scope, name) do update set session = excluded.session;

-- name: names.create (scope text, name text, session bigint)
insert into names (scope, name, session) select k.scope, k.name, k.session from {{rows}} k {{order 1, 2}};

-- name: names.drop (scope text, name text)
delete from names where (scope, name) in (select k.scope, k.name from {{rows}} k);

-- name: routes.load (scope text, provider text, account text)
select r.scope, r.provider, r.account, r.session
from {{rows}} k join routes r on r.scope = k.scope and r.provider = k.provider and r.account = k.account;

-- name: routes.save (scope text, provider text, account text, session bigint)
insert into routes (scope, provider, account, session)
select k.scope, k.provider, k.account, k.session from {{rows}} k where true
on conflict (scope, provider, account) do update set session = excluded.session;

-- name: routes.drop (scope text, provider text, account text)
delete from routes where (scope, provider, account) in (select k.scope, k.provider, k.account from {{rows}} k);

-- name: routes.of_session
select r.scope, r.provider, r.account from routes r where r.session = $1
order by r.scope, r.provider, r.account;

-- name: parked.add (id bigint, parked_at bigint, story text, reason text, body text, attempts bigint)
insert into parked (id, parked_at, story, reason, body, attempts)
select k.id, k.parked_at, k.story, k.reason, k.body, k.attempts from {{rows}} k;

-- name: parked.page
select p.id, p.parked_at, p.story, p.reason, p.body, p.attempts from parked p
where (p.parked_at, p.id) > ($1, $2) order by p.parked_at, p.id limit $3;

-- name: parked.drop (id bigint)
delete from parked where id in (select k.id from {{rows}} k);

-- name: meta.load
select name, value from meta order by name;

-- name: meta.save (name text, value text)
insert into meta (name, value) select k.name, k.value from {{rows}} k where true
on conflict (name) do update set value = excluded.value;
