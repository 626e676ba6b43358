-- name: addresses.load (address text)
select a.address, a.conversation from {{rows}} k join addresses a on a.address = k.address;

-- name: addresses.save (address text, conversation bigint)
insert into addresses (address, conversation) select k.address, k.conversation from {{rows}} k {{order 1}};

-- name: conversations.load (id bigint)
select c.id, c.address, c.kind, c.next_sequence, c.lowest_sequence, c.earliest_sequence, c.body
from {{rows}} k join conversations c on c.id = k.id {{order c.id}} {{lock c}};

-- name: conversations.create (id bigint, scope text, address text, kind text, next_sequence bigint, lowest_sequence bigint, earliest_sequence bigint, session bigint, due_at bigint, retained smallint, body text)
insert into conversations
    (id, scope, address, kind, next_sequence, lowest_sequence, earliest_sequence, session, due_at, retained, body)
select k.id, k.scope, k.address, k.kind, k.next_sequence, k.lowest_sequence, k.earliest_sequence,
    k.session, k.due_at, k.retained, k.body
from {{rows}} k {{order 1}};

-- name: conversations.save (id bigint, scope text, address text, kind text, next_sequence bigint, lowest_sequence bigint, earliest_sequence bigint, session bigint, due_at bigint, retained smallint, body text)
update conversations set address = k.address, kind = k.kind, next_sequence = k.next_sequence,
    lowest_sequence = k.lowest_sequence, earliest_sequence = k.earliest_sequence,
    session = k.session, due_at = k.due_at, retained = k.retained, body = k.body
from {{rows}} k where conversations.id = k.id and conversations.scope = k.scope;

-- name: conversations.advance (id bigint, next_sequence bigint, lowest_sequence bigint, earliest_sequence bigint)
update conversations set next_sequence = k.next_sequence, lowest_sequence = k.lowest_sequence,
    earliest_sequence = k.earliest_sequence
from {{rows}} k where conversations.id = k.id;

-- name: conversations.page
select c.id, c.address, c.kind, c.next_sequence, c.lowest_sequence, c.earliest_sequence, c.body
from conversations c where c.scope = $1 and c.address > $2 order by c.address limit $3;

-- name: conversations.bound_to
select c.id, c.address, c.kind, c.next_sequence, c.lowest_sequence, c.earliest_sequence, c.body
from conversations c where c.session = $1 and c.id > $2 order by c.id limit $3;

-- name: conversations.due
select c.id, c.address, c.kind, c.next_sequence, c.lowest_sequence, c.earliest_sequence, c.body
from conversations c where c.due_at <= $1 order by c.due_at limit $2;

-- name: conversations.retained
select c.id, c.address, c.kind, c.next_sequence, c.lowest_sequence, c.earliest_sequence, c.body
from conversations c where c.retained = 1 and c.id > $1 order by c.id limit $2;

-- name: conversations.counters
select c.id, c.next_sequence, c.earliest_sequence from conversations c
where c.id > $1 order by c.id limit $2;

-- name: conversations.at_once
select c.next_sequence, c.earliest_sequence,
       (select min(r.sequence) from records r where r.conversation = c.id),
       (select max(r.sequence) from records r where r.conversation = c.id)
from conversations c where c.id = $1;
