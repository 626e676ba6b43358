-- The lanes of the outbox: one a conversation, with its lease; the receipts that are in no record yet;
-- the buckets that wait; the adapters outside of this process.

alter table deliveries add column turn bigint not null default 0;
alter table deliveries add column lane smallint not null default 0;
create index deliveries_in_lane on deliveries (conversation, turn) where lane = 1;
create index deliveries_in_state on deliveries (state, created_at, conversation, id);
drop index deliveries_open;

create table lanes (
    conversation bigint not null primary key,
    fence bigint not null,
    owner text not null,
    due_at bigint,
    waiting bigint not null,
    ticket bigint not null
);
create index lanes_due on lanes (due_at, conversation);
create index lanes_owned on lanes (owner, conversation);

create table receipts (
    conversation bigint not null,
    key bytea not null,
    position bigint,
    body text not null,
    primary key (conversation, key)
) {{clustered}};
create index receipts_waiting on receipts (conversation, position) where position > 0;

create table waits (
    scope text not null,
    provider text not null,
    account text not null,
    route text not null,
    body text not null,
    primary key (scope, provider, account, route)
) {{clustered}};

create table adapters (
    scope text not null,
    provider text not null,
    account text not null,
    body text not null,
    primary key (scope, provider, account)
) {{clustered}};
