-- name: members.load (conversation bigint, session bigint)
select m.conversation, m.session, m.joined_sequence, m.last_read, m.closed_at, m.gate, m.body
from {{rows}} k join members m on m.conversation = k.conversation and m.session = k.session
{{order m.conversation, m.session}} {{lock m}};

-- name: members.save (conversation bigint, session bigint, joined_sequence bigint, last_read bigint, closed_at bigint, gate bigint, body text)
insert into members (conversation, session, joined_sequence, last_read, closed_at, gate, body)
select k.conversation, k.session, k.joined_sequence, k.last_read, k.closed_at, k.gate, k.body
from {{rows}} k where true
on conflict (conversation, session) do update set joined_sequence = excluded.joined_sequence,
    last_read = excluded.last_read, closed_at = excluded.closed_at, gate = excluded.gate,
    body = excluded.body;

-- name: members.read (conversation bigint, session bigint, last_read bigint)
update members set last_read = k.last_read
from {{rows}} k where members.conversation = k.conversation and members.session = k.session
    and (members.last_read is null or members.last_read < k.last_read);

-- name: members.drop (conversation bigint, session bigint)
delete from members where (conversation, session) in (select k.conversation, k.session from {{rows}} k);

-- name: members.gated
select m.conversation, m.session, m.joined_sequence, m.last_read, m.closed_at, m.gate, m.body
from members m where m.conversation = $1 and m.gate is not null order by m.session limit $2;

-- name: members.of_conversation
select m.conversation, m.session, m.joined_sequence, m.last_read, m.closed_at, m.gate, m.body
from members m where m.conversation = $1 and m.session > $2 and m.closed_at is null
order by m.session limit $3;

-- name: members.of_session
select m.conversation, c.next_sequence - 1, m.last_read
from members m join conversations c on c.id = m.conversation
where m.session = $1 and m.conversation > $2 and m.closed_at is null
order by m.conversation limit $3;

-- name: members.behind (session bigint)
select m.session, m.conversation, c.next_sequence - 1
from {{rows}} k join members m on m.session = k.session join conversations c on c.id = m.conversation
where m.closed_at is null and (m.last_read is null or c.next_sequence - 1 > m.last_read);

-- name: members.rung_sqlite
select m.conversation, m.session
from json_each($1) r cross join json_each($2) s
cross join members m on m.conversation = r.value and m.session = s.value
where m.closed_at is null;

-- name: members.rung_postgres
select m.conversation, m.session
from unnest($1::bigint[]) r (conversation) cross join unnest($2::bigint[]) s (session)
join members m on m.conversation = r.conversation and m.session = s.session
where m.closed_at is null;

-- name: participants.load (conversation bigint, handle text)
select p.conversation, p.handle, p.session, p.body
from {{rows}} k join participants p on p.conversation = k.conversation and p.handle = k.handle;

-- name: participants.save (conversation bigint, handle text, session bigint, body text)
insert into participants (conversation, handle, session, body)
select k.conversation, k.handle, k.session, k.body from {{rows}} k where true
on conflict (conversation, handle) do update set session = excluded.session, body = excluded.body;

-- name: participants.drop (conversation bigint, handle text)
delete from participants where (conversation, handle) in (select k.conversation, k.handle from {{rows}} k);

-- name: participants.seats
select p.handle, p.session
from participants p where p.conversation = $1 and p.handle > $2 order by p.handle limit $3;

-- name: participants.of_conversation
select p.conversation, p.handle, p.session, p.body
from participants p where p.conversation = $1 and p.handle > $2 order by p.handle limit $3;

-- name: holds.load (conversation bigint, key bytea)
select h.conversation, h.key, h.position, h.size, h.body
from {{rows}} k join holds h on h.conversation = k.conversation and h.key = k.key;

-- name: holds.save (conversation bigint, key bytea, position bigint, size bigint, body text)
insert into holds (conversation, key, position, size, body)
select k.conversation, k.key, k.position, k.size, k.body from {{rows}} k where true
on conflict (conversation, key) do update set body = excluded.body;

-- name: holds.drop (conversation bigint, key bytea)
delete from holds where (conversation, key) in (select k.conversation, k.key from {{rows}} k);

-- name: holds.first
select h.conversation, h.key, h.position, h.size, h.body
from holds h where h.conversation = $1 order by h.position limit $2;
