-- People, whether they may be written to, through which accounts, how often, and what was done.

create table people (
    id bigint not null,
    scope text not null,
    name text not null,
    successor bigint,
    body text not null,
    primary key (id)
) {{clustered}};
create index people_of on people (scope, id);

create table contacts (
    scope text not null,
    provider text not null,
    realm text not null,
    address text not null,
    person bigint not null,
    body text not null,
    primary key (scope, provider, realm, address)
) {{clustered}};
create index contacts_of on contacts (person, provider, realm, address);
create index contacts_at on contacts (scope, address, provider, realm);

create table codes (
    scope text not null,
    hash bytea not null,
    person bigint not null,
    expires_at bigint not null,
    provider text not null,
    primary key (scope, hash)
) {{clustered}};
create index codes_ended on codes (expires_at);

create table consents (
    subject bigint not null,
    about text not null,
    body text not null,
    primary key (subject, about)
) {{clustered}};

create table quotas (
    scope text not null,
    subject text not null,
    body text not null,
    primary key (scope, subject)
) {{clustered}};

create table settings (
    scope text not null,
    name text not null,
    body text not null,
    primary key (scope, name)
) {{clustered}};

create table granted (
    session bigint not null,
    provider text not null,
    account text not null,
    body text not null,
    primary key (session, provider, account)
) {{clustered}};

create table sends (
    id bigint not null,
    scope text not null,
    session bigint not null,
    created_at bigint not null,
    due_at bigint,
    person bigint,
    body text not null,
    primary key (id)
) {{clustered}};
create index sends_due on sends (due_at, id) where due_at is not null;
create index sends_for on sends (person, id) where due_at is not null;
create index sends_of on sends (scope, created_at, id);
create index sends_by on sends (session, created_at, id);

create table firsts (
    scope text not null,
    hash bytea not null,
    until bigint not null,
    body text not null,
    primary key (scope, hash)
) {{clustered}};
create index firsts_ended on firsts (until);

create table audit (
    scope text not null,
    number bigint not null,
    at bigint not null,
    action text not null,
    digest bytea not null,
    body text not null,
    primary key (scope, number)
) {{clustered}};

create table chains (
    scope text not null,
    count bigint not null,
    digest bytea not null,
    primary key (scope)
) {{clustered}};
