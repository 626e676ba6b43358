-- name: links.load (id bigint)
select l.id, l.body from {{rows}} k join links l on l.id = k.id;

-- name: links.save (id bigint, hash bytea, conversation bigint, ends bigint, body text)
insert into links (id, hash, conversation, ends, body)
select k.id, k.hash, k.conversation, k.ends, k.body from {{rows}} k where true
on conflict (id) do update set ends = excluded.ends, body = excluded.body;

-- name: links.drop (id bigint)
delete from links where (id) in (select k.id from {{rows}} k);

-- name: links.by_hash
select l.id from links l where l.hash = $1;

-- name: links.of_conversation
select l.id, l.body from links l
where l.conversation = $1 and l.id > $2 order by l.id limit $3;

-- name: links.ended
select l.id from links l where l.ends <= $1 order by l.ends limit $2;

-- name: guests.load (id bigint)
select g.id, g.body from {{rows}} k join guests g on g.id = k.id;

-- name: guests.save (id bigint, hash bytea, conversation bigint, link bigint, body text)
insert into guests (id, hash, conversation, link, body)
select k.id, k.hash, k.conversation, k.link, k.body from {{rows}} k where true
on conflict (id) do update set body = excluded.body;

-- name: guests.drop (id bigint)
delete from guests where (id) in (select k.id from {{rows}} k);

-- name: guests.by_hash
select g.id from guests g where g.hash = $1;

-- name: guests.of_conversation
select g.id, g.body from guests g
where g.conversation = $1 and g.id > $2 order by g.id limit $3;

-- name: guests.of_ended
select g.id from links l join guests g on g.link = l.id where l.ends <= $1 limit $2;

-- name: guests.of_link
select g.id from guests g where g.link = $1 limit $2;

-- name: logins.load (hash bytea)
select l.hash, l.token, l.ends from {{rows}} k join logins l on l.hash = k.hash;

-- name: logins.save (hash bytea, token bytea, ends bigint)
insert into logins (hash, token, ends)
select k.hash, k.token, k.ends from {{rows}} k where true
on conflict (hash) do update set token = excluded.token, ends = excluded.ends;

-- name: logins.drop (hash bytea)
delete from logins where (hash) in (select k.hash from {{rows}} k);

-- name: logins.ended
select l.hash from logins l where l.ends <= $1 order by l.ends limit $2;
