-- Counting the store a page at a time: every statement costs at most its limit.

-- name: census.conversations
select c.id, c.scope, c.next_sequence - c.earliest_sequence,
    (select count(*) from (
        select 1 as one from members m where m.conversation = c.id and m.closed_at is null limit 1
    ) found)
from conversations c where c.id > $1 order by c.id limit $2;

-- name: census.members
select m.conversation, m.session, c.scope, m.closed_at is null,
    c.next_sequence - 1 - coalesce(m.last_read, m.joined_sequence)
from members m join conversations c on c.id = m.conversation
where (m.conversation, m.session) > ($1, $2) order by m.conversation, m.session limit $3;

-- name: census.sessions
select s.id, s.scope from sessions s where s.id > $1 order by s.id limit $2;

-- name: census.held
select count(*) from (select 1 as one from holds h where h.conversation > $1 limit $2) found;

-- name: census.parked
select count(*) from (select 1 as one from parked p where p.parked_at > $1 limit $2) found;

-- name: census.open
select found.scope, found.state, count(*) from (
    select c.scope, d.state from deliveries d join conversations c on c.id = d.conversation
    where d.state in ('pending', 'sending', 'uncertain') and d.created_at > $1
    order by d.created_at limit $2
) found group by found.scope, found.state;

-- name: census.recent
select found.scope, found.state, count(*) from (
    select c.scope, d.state from deliveries d join conversations c on c.id = d.conversation
    where d.created_at > $1 order by d.created_at desc limit $2
) found group by found.scope, found.state;
