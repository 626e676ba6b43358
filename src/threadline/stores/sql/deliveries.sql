-- name: deliveries.load (conversation bigint, id bigint)
select d.conversation, d.id, d.body
from {{rows}} k join deliveries d on d.conversation = k.conversation and d.id = k.id;

-- name: deliveries.save (conversation bigint, id bigint, session bigint, state text, created_at bigint, turn bigint, lane smallint, body text)
insert into deliveries (conversation, id, session, state, created_at, turn, lane, body)
select k.conversation, k.id, k.session, k.state, k.created_at, k.turn, k.lane, k.body
from {{rows}} k where true
on conflict (conversation, id) do update
set session = excluded.session, state = excluded.state, turn = excluded.turn, lane = excluded.lane,
    body = excluded.body;

-- name: deliveries.drop (conversation bigint, id bigint)
delete from deliveries where (conversation, id) in (select k.conversation, k.id from {{rows}} k);

-- name: deliveries.of_conversation
select d.conversation, d.id, d.body from deliveries d
where d.conversation = $1 and (d.created_at, d.conversation, d.id) < ($2, $3, $4)
order by d.created_at desc, d.conversation desc, d.id desc limit $5;

-- name: deliveries.of_session
select d.conversation, d.id, d.body from deliveries d
where d.session = $1 and (d.created_at, d.conversation, d.id) < ($2, $3, $4)
order by d.created_at desc, d.conversation desc, d.id desc limit $5;

-- name: deliveries.of_scope
select d.conversation, d.id, d.body from deliveries d join conversations c on c.id = d.conversation
where c.scope = $1 and (d.created_at, d.conversation, d.id) < ($2, $3, $4)
order by d.created_at desc, d.conversation desc, d.id desc limit $5;

-- name: deliveries.in_state
select d.conversation, d.id, d.body from deliveries d join conversations c on c.id = d.conversation
where d.state = $2 and c.scope = $1 and (d.created_at, d.conversation, d.id) < ($3, $4, $5)
order by d.created_at desc, d.conversation desc, d.id desc limit $6;

-- name: deliveries.in_lane
select d.conversation, d.id, d.body from deliveries d
where d.conversation = $1 and d.lane = 1 order by d.turn limit $2;

-- name: deliveries.latest
select d.conversation, d.id, d.body from deliveries d
where d.conversation = $1 and d.session = $2 and d.state = 'delivered'
order by d.id desc limit 1;

-- name: deliveries.said
select d.conversation, d.id, d.body from deliveries d
where d.conversation = $1 and d.session = $2 and d.state = 'delivered' and d.id < $3
order by d.id desc limit $4;

-- name: intents.load (session bigint, key bytea)
select i.session, i.key, i.digest, i.conversation, i.delivery, i.created_at
from {{rows}} k join intents i on i.session = k.session and i.key = k.key;

-- name: intents.create (session bigint, key bytea, digest bytea, conversation bigint, delivery bigint, created_at bigint)
insert into intents (session, key, digest, conversation, delivery, created_at)
select k.session, k.key, k.digest, k.conversation, k.delivery, k.created_at from {{rows}} k;

-- name: intents.save (session bigint, key bytea, digest bytea, conversation bigint, delivery bigint, created_at bigint)
update intents set digest = k.digest, conversation = k.conversation, delivery = k.delivery,
    created_at = k.created_at
from {{rows}} k where intents.session = k.session and intents.key = k.key;

-- name: intents.drop (session bigint, key bytea)
delete from intents where (session, key) in (select k.session, k.key from {{rows}} k);

-- name: intents.old
select i.session, i.key from intents i where i.created_at < $1 order by i.created_at limit $2;
