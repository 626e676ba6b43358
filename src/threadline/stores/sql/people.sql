-- name: people.load (id bigint)
select p.id, p.body from {{rows}} k join people p on p.id = k.id
{{order p.id}} {{lock p}};

-- name: people.save (id bigint, scope text, name text, successor bigint, body text)
insert into people (id, scope, name, successor, body)
select k.id, k.scope, k.name, k.successor, k.body from {{rows}} k where true
on conflict (id) do update set name = excluded.name, successor = excluded.successor,
    body = excluded.body;

-- name: people.drop (id bigint)
delete from people where (id) in (select k.id from {{rows}} k);

-- name: people.page
select p.id, p.body from people p
where p.scope = $1 and p.id > $2 and p.successor is null and ($3 = '' or p.name = $3)
order by p.id limit $4;

-- name: contacts.load (scope text, provider text, realm text, address text)
select c.scope, c.provider, c.realm, c.address, c.body
from {{rows}} k join contacts c on c.scope = k.scope and c.provider = k.provider
    and c.realm = k.realm and c.address = k.address
{{order 1, 2, 3, 4}} {{lock c}};

-- name: contacts.save (scope text, provider text, realm text, address text, person bigint, body text)
insert into contacts (scope, provider, realm, address, person, body)
select k.scope, k.provider, k.realm, k.address, k.person, k.body from {{rows}} k where true
on conflict (scope, provider, realm, address) do update
set person = excluded.person, body = excluded.body;

-- name: contacts.drop (scope text, provider text, realm text, address text)
delete from contacts where (scope, provider, realm, address) in
    (select k.scope, k.provider, k.realm, k.address from {{rows}} k);

-- name: contacts.of_person
select c.scope, c.provider, c.realm, c.address, c.body from contacts c
where c.person = $1 and (c.provider, c.realm, c.address) > ($2, $3, $4)
order by c.provider, c.realm, c.address limit $5;

-- name: contacts.at
select c.scope, c.provider, c.realm, c.address, c.body from contacts c
where c.scope = $1 and c.address = $2 and (c.provider, c.realm) > ($3, $4)
order by c.provider, c.realm limit $5;

-- name: codes.load (scope text, hash bytea)
select c.scope, c.hash, c.person, c.expires_at, c.provider
from {{rows}} k join codes c on c.scope = k.scope and c.hash = k.hash
{{order 1, 2}} {{lock c}};

-- name: codes.save (scope text, hash bytea, person bigint, expires_at bigint, provider text)
insert into codes (scope, hash, person, expires_at, provider)
select k.scope, k.hash, k.person, k.expires_at, k.provider from {{rows}} k where true
on conflict (scope, hash) do update set person = excluded.person,
    expires_at = excluded.expires_at, provider = excluded.provider;

-- name: codes.drop (scope text, hash bytea)
delete from codes where (scope, hash) in (select k.scope, k.hash from {{rows}} k);

-- name: codes.ended
select c.scope, c.hash from codes c where c.expires_at <= $1 order by c.expires_at limit $2;

-- name: consents.load (subject bigint, about text)
select c.subject, c.about, c.body
from {{rows}} k join consents c on c.subject = k.subject and c.about = k.about
{{order 1, 2}} {{lock c}};

-- name: consents.save (subject bigint, about text, body text)
insert into consents (subject, about, body)
select k.subject, k.about, k.body from {{rows}} k where true
on conflict (subject, about) do update set body = excluded.body;

-- name: consents.drop (subject bigint, about text)
delete from consents where (subject, about) in (select k.subject, k.about from {{rows}} k);

-- name: consents.of_subject
select c.subject, c.about, c.body from consents c
where c.subject = $1 and c.about > $2 order by c.about limit $3;
