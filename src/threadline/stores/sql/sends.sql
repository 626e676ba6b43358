-- name: quotas.load (scope text, subject text)
select q.scope, q.subject, q.body
from {{rows}} k join quotas q on q.scope = k.scope and q.subject = k.subject
{{order 1, 2}} {{lock q}};

-- name: quotas.save (scope text, subject text, body text)
insert into quotas (scope, subject, body)
select k.scope, k.subject, k.body from {{rows}} k where true
on conflict (scope, subject) do update set body = excluded.body;

-- name: quotas.drop (scope text, subject text)
delete from quotas where (scope, subject) in (select k.scope, k.subject from {{rows}} k);

-- name: settings.load (scope text, name text)
select s.scope, s.name, s.body
from {{rows}} k join settings s on s.scope = k.scope and s.name = k.name
{{order 1, 2}} {{lock s}};

-- name: settings.save (scope text, name text, body text)
insert into settings (scope, name, body)
select k.scope, k.name, k.body from {{rows}} k where true
on conflict (scope, name) do update set body = excluded.body;

-- name: settings.drop (scope text, name text)
delete from settings where (scope, name) in (select k.scope, k.name from {{rows}} k);

-- name: granted.load (session bigint, provider text, account text)
select g.session, g.provider, g.account, g.body
from {{rows}} k join granted g on g.session = k.session and g.provider = k.provider
    and g.account = k.account
{{order 1, 2, 3}} {{lock g}};

-- name: granted.save (session bigint, provider text, account text, body text)
insert into granted (session, provider, account, body)
select k.session, k.provider, k.account, k.body from {{rows}} k where true
on conflict (session, provider, account) do update set body = excluded.body;

-- name: granted.drop (session bigint, provider text, account text)
delete from granted where (session, provider, account) in
    (select k.session, k.provider, k.account from {{rows}} k);

-- name: granted.of_session
select g.session, g.provider, g.account, g.body from granted g
where g.session = $1 and (g.provider, g.account) > ($2, $3)
order by g.provider, g.account limit $4;

-- name: sends.load (id bigint)
select s.id, s.body from {{rows}} k join sends s on s.id = k.id
{{order s.id}} {{lock s}};

-- name: sends.save (id bigint, scope text, session bigint, created_at bigint, due_at bigint, person bigint, body text)
insert into sends (id, scope, session, created_at, due_at, person, body)
select k.id, k.scope, k.session, k.created_at, k.due_at, k.person, k.body from {{rows}} k where true
on conflict (id) do update set due_at = excluded.due_at, person = excluded.person, body = excluded.body;

-- name: sends.drop (id bigint)
delete from sends where (id) in (select k.id from {{rows}} k);

-- name: sends.due
select s.id, s.due_at from sends s
where s.due_at is not null and (s.due_at, s.id) > ($1, $2) order by s.due_at, s.id limit $3;

-- name: sends.for_person
select s.id, s.body from sends s
where s.person = $1 and s.due_at is not null and s.id > $2 order by s.id limit $3;

-- name: sends.of_session
select s.id, s.body from sends s
where s.session = $1 and (s.created_at, s.id) < ($2, $3)
order by s.created_at desc, s.id desc limit $4;

-- name: sends.of_scope
select s.id, s.body from sends s
where s.scope = $1 and (s.created_at, s.id) < ($2, $3)
order by s.created_at desc, s.id desc limit $4;

-- name: firsts.load (scope text, hash bytea)
select f.scope, f.hash, f.body
from {{rows}} k join firsts f on f.scope = k.scope and f.hash = k.hash
{{order 1, 2}} {{lock f}};

-- name: firsts.save (scope text, hash bytea, until bigint, body text)
insert into firsts (scope, hash, until, body)
select k.scope, k.hash, k.until, k.body from {{rows}} k where true
on conflict (scope, hash) do update set until = excluded.until, body = excluded.body;

-- name: firsts.drop (scope text, hash bytea)
delete from firsts where (scope, hash) in (select k.scope, k.hash from {{rows}} k);

-- name: firsts.ended
select f.scope, f.hash from firsts f where f.until <= $1 order by f.until limit $2;
