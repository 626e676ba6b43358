-- name: records.load (conversation bigint, sequence bigint)
select r.conversation, r.sequence, r.body
from {{rows}} k join records r on r.conversation = k.conversation and r.sequence = k.sequence;

-- name: records.add (conversation bigint, sequence bigint, hydrated smallint, source bigint, recorded_at bigint, digest bytea, body text)
insert into records (conversation, sequence, hydrated, source, recorded_at, digest, body)
select k.conversation, k.sequence, k.hydrated, k.source, k.recorded_at, k.digest, k.body from {{rows}} k;

-- name: records.save (conversation bigint, sequence bigint, hydrated smallint, source bigint, recorded_at bigint, digest bytea, body text)
update records set hydrated = k.hydrated, source = k.source, recorded_at = k.recorded_at,
    digest = k.digest, body = k.body
from {{rows}} k where records.conversation = k.conversation and records.sequence = k.sequence;

-- name: records.sweep
delete from records where conversation = $1 and sequence < $2;

-- name: records.after
select r.conversation, r.sequence, r.body from records r
where r.conversation = $1 and r.sequence > $2 and r.sequence < $3
    and ($4 = 0 or r.hydrated = 0) and r.source is distinct from $5
order by r.sequence limit $6;

-- name: records.before
select r.conversation, r.sequence, r.body from records r
where r.conversation = $1 and r.sequence > $2 and r.sequence < $3
    and ($4 = 0 or r.hydrated = 0) and r.source is distinct from $5
order by r.sequence desc limit $6;

-- name: records.lag
select count(*) from (
    select 1 as one from records r
    where r.conversation = $1 and r.sequence > $2 and ($3 = 0 or r.hydrated = 0)
        and r.source is distinct from $4
    limit 1000
) others;

-- name: records.older_than
select max(old.sequence) from (
    select r.sequence, r.recorded_at from records r
    where r.conversation = $1 and r.sequence >= $2 order by r.sequence limit 1000
) old where old.recorded_at < $3;

-- name: records.verify
select r.conversation, r.sequence, r.digest, r.body from records r
where (r.conversation, r.sequence) > ($1, $2) order by r.conversation, r.sequence limit $3;

-- name: ids.load (conversation bigint, key bytea)
select i.conversation, i.key, i.sequence, i.part
from {{rows}} k join ids i on i.conversation = k.conversation and i.key = k.key;

-- name: ids.add (conversation bigint, key bytea, sequence bigint, part smallint)
insert into ids (conversation, key, sequence, part)
select k.conversation, k.key, k.sequence, k.part from {{rows}} k;

-- name: ids.save (conversation bigint, key bytea, sequence bigint, part smallint)
update ids set sequence = k.sequence, part = k.part
from {{rows}} k where ids.conversation = k.conversation and ids.key = k.key;

-- name: revisions.add (conversation bigint, key bytea, at_conversation bigint, at_sequence bigint, event text)
insert into revisions (conversation, key, at_conversation, at_sequence, event)
select k.conversation, k.key, k.at_conversation, k.at_sequence, k.event from {{rows}} k
where true on conflict do nothing;

-- name: revisions.load (conversation bigint, key bytea)
select v.conversation, v.key, v.at_conversation, v.at_sequence, v.event
from {{rows}} k join revisions v on v.conversation = k.conversation and v.key = k.key
order by v.at_conversation, v.at_sequence;
