-- name: lanes.load (conversation bigint)
select l.conversation, l.fence, l.owner, l.due_at, l.waiting, l.ticket
from {{rows}} k join lanes l on l.conversation = k.conversation;

-- name: lanes.save (conversation bigint, fence bigint, owner text, due_at bigint, waiting bigint, ticket bigint)
insert into lanes (conversation, fence, owner, due_at, waiting, ticket)
select k.conversation, k.fence, k.owner, k.due_at, k.waiting, k.ticket from {{rows}} k where true
on conflict (conversation) do update
set fence = excluded.fence, owner = excluded.owner, due_at = excluded.due_at,
    waiting = excluded.waiting, ticket = excluded.ticket;

-- name: lanes.drop (conversation bigint)
delete from lanes where (conversation) in (select k.conversation from {{rows}} k);

-- name: lanes.next
select l.conversation, l.due_at from lanes l
where (l.due_at, l.conversation) > ($1, $2) order by l.due_at, l.conversation limit $3;

-- name: lanes.owned
select l.conversation from lanes l
where l.owner = $1 and l.conversation > $2 order by l.conversation limit $3;

-- name: receipts.load (conversation bigint, key bytea)
select r.conversation, r.key, r.body
from {{rows}} k join receipts r on r.conversation = k.conversation and r.key = k.key;

-- name: receipts.save (conversation bigint, key bytea, position bigint, body text)
insert into receipts (conversation, key, position, body)
select k.conversation, k.key, k.position, k.body from {{rows}} k where true
on conflict (conversation, key) do update set position = excluded.position, body = excluded.body;

-- name: receipts.drop (conversation bigint, key bytea)
delete from receipts where (conversation, key) in (select k.conversation, k.key from {{rows}} k);

-- name: receipts.waiting
select r.conversation, r.key, r.body from receipts r
where r.conversation = $1 and r.position > 0 order by r.position limit $2;

-- name: waits.load (scope text, provider text, account text, route text)
select w.scope, w.provider, w.account, w.route, w.body
from {{rows}} k join waits w on w.scope = k.scope and w.provider = k.provider
    and w.account = k.account and w.route = k.route
{{order 1, 2, 3, 4}} {{lock w}};

-- name: waits.save (scope text, provider text, account text, route text, body text)
insert into waits (scope, provider, account, route, body)
select k.scope, k.provider, k.account, k.route, k.body from {{rows}} k where true
on conflict (scope, provider, account, route) do update set body = excluded.body;

-- name: waits.drop (scope text, provider text, account text, route text)
delete from waits where (scope, provider, account, route) in
    (select k.scope, k.provider, k.account, k.route from {{rows}} k);
