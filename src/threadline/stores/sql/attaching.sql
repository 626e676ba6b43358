-- name: leases.load (session bigint)
select l.session, l.body from {{rows}} k join leases l on l.session = k.session;

-- name: leases.save (session bigint, body text)
insert into leases (session, body)
select k.session, k.body from {{rows}} k where true
on conflict (session) do update set body = excluded.body;

-- name: leases.drop (session bigint)
delete from leases where (session) in (select k.session from {{rows}} k);

-- name: runs.load (conversation bigint, session bigint)
select r.conversation, r.session, r.body
from {{rows}} k join runs r on r.conversation = k.conversation and r.session = k.session;

-- name: runs.save (conversation bigint, session bigint, body text)
insert into runs (conversation, session, body)
select k.conversation, k.session, k.body from {{rows}} k where true
on conflict (conversation, session) do update set body = excluded.body;

-- name: runs.drop (conversation bigint, session bigint)
delete from runs where (conversation, session) in (select k.conversation, k.session from {{rows}} k);
