-- Connected accounts: the name in the path of their webhook, and who fetches the events of those
-- that have none.

alter table adapters add column installation text not null default '';
create index adapters_installed on adapters (provider, installation, scope, account)
    where installation <> '';

create table listeners (
    scope text not null,
    provider text not null,
    account text not null,
    body text not null,
    primary key (scope, provider, account)
) {{clustered}};
