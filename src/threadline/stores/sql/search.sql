-- The text index trails the transcripts and leaves nothing behind that was deleted.
-- SQLite: `search` is contentless, `search_rows` says which row is which record.

-- name: search.place_sqlite (conversation bigint, sequence bigint, recorded_at bigint, words text)
insert into search_rows (conversation, sequence)
select k.conversation, k.sequence from {{rows}} k where true on conflict do nothing;

-- name: search.place_postgres (conversation bigint, sequence bigint, recorded_at bigint, words text)
select 1 from {{rows}} k where false;

-- name: search.add_sqlite (conversation bigint, sequence bigint, recorded_at bigint, words text)
insert into search (rowid, place, words)
select s.id, 'c' || k.conversation, k.words from {{rows}} k
join search_rows s on s.conversation = k.conversation and s.sequence = k.sequence;

-- name: search.add_postgres (conversation bigint, sequence bigint, recorded_at bigint, words text)
insert into search (conversation, sequence, recorded_at, words)
select k.conversation, k.sequence, k.recorded_at, to_tsvector('simple', k.words) from {{rows}} k
where true on conflict do nothing;

-- name: search.drop_sqlite (conversation bigint, sequence bigint)
delete from search where rowid in (
    select s.id from {{rows}} k
    join search_rows s on s.conversation = k.conversation and s.sequence = k.sequence);

-- name: search.drop_postgres (conversation bigint, sequence bigint)
delete from search where (conversation, sequence) in (select k.conversation, k.sequence from {{rows}} k);

-- name: search.sweep_sqlite
delete from search where rowid in (
    select s.id from search_rows s where s.conversation = $1 and s.sequence < $2);

-- name: search.sweep_postgres
delete from search where conversation = $1 and sequence < $2;

-- name: search.unplace_sqlite
delete from search_rows where conversation = $1 and sequence < $2;

-- name: search.unplace_postgres
select 1 where false and $1::bigint = $2::bigint;

-- name: search.find_sqlite
select s.conversation, s.sequence, f.rowid
from search f join search_rows s on s.id = f.rowid
where f.search match $1 and f.rowid < $2
order by f.rowid desc limit $3;

-- name: search.find_postgres
select s.conversation, s.sequence, s.recorded_at
from search s
where s.words @@ websearch_to_tsquery('simple', $1)
    and (s.recorded_at, s.conversation, s.sequence) < ($2, $4, $5)
    and ($6::bigint[] is null or s.conversation = any($6))
order by s.recorded_at desc, s.conversation desc, s.sequence desc limit $3;

-- name: search.behind
select c.id, c.earliest_sequence, c.next_sequence - 1, i.lowest, i.head
from conversations c left join indexed i on i.conversation = c.id
where c.id > $1 and c.next_sequence > c.earliest_sequence
    and (i.conversation is null or i.head < c.next_sequence - 1 or i.lowest > c.earliest_sequence)
order by c.id limit $2;

-- name: indexed.load (conversation bigint)
select i.conversation, i.lowest, i.head from {{rows}} k join indexed i on i.conversation = k.conversation;

-- name: indexed.save (conversation bigint, lowest bigint, head bigint)
insert into indexed (conversation, lowest, head)
select k.conversation, k.lowest, k.head from {{rows}} k where true
on conflict (conversation) do update set lowest = excluded.lowest, head = excluded.head;
