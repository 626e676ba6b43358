-- name: adapters.load (scope text, provider text, account text)
select a.scope, a.provider, a.account, a.body
from {{rows}} k join adapters a on a.scope = k.scope and a.provider = k.provider
    and a.account = k.account
{{order 1, 2, 3}} {{lock a}};

-- name: adapters.save (scope text, provider text, account text, installation text, body text)
insert into adapters (scope, provider, account, installation, body)
select k.scope, k.provider, k.account, k.installation, k.body from {{rows}} k where true
on conflict (scope, provider, account) do update
set installation = excluded.installation, body = excluded.body;

-- name: adapters.drop (scope text, provider text, account text)
delete from adapters where (scope, provider, account) in
    (select k.scope, k.provider, k.account from {{rows}} k);

-- name: adapters.page
select a.scope, a.provider, a.account, a.body from adapters a
where a.scope = $1 and (a.provider, a.account) > ($2, $3)
order by a.provider, a.account limit $4;

-- name: adapters.installed
select a.scope, a.provider, a.account, a.body from adapters a
where a.provider = $1 and a.installation = $2 and a.installation <> ''
order by a.scope, a.account limit $3;

-- name: adapters.connected
select a.scope, a.provider, a.account, a.body from adapters a
where a.installation <> '' and (a.scope, a.provider, a.account) > ($1, $2, $3)
order by a.scope, a.provider, a.account limit $4;

-- name: listeners.load (scope text, provider text, account text)
select l.scope, l.provider, l.account, l.body
from {{rows}} k join listeners l on l.scope = k.scope and l.provider = k.provider
    and l.account = k.account
{{order 1, 2, 3}} {{lock l}};

-- name: listeners.save (scope text, provider text, account text, body text)
insert into listeners (scope, provider, account, body)
select k.scope, k.provider, k.account, k.body from {{rows}} k where true
on conflict (scope, provider, account) do update set body = excluded.body;

-- name: listeners.drop (scope text, provider text, account text)
delete from listeners where (scope, provider, account) in
    (select k.scope, k.provider, k.account from {{rows}} k);
