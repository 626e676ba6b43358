-- What sessions say: one row an intent, and what its key stands for.

create table deliveries (
    conversation bigint not null,
    id bigint not null,
    session bigint not null,
    state text not null,
    created_at bigint not null,
    body text not null,
    primary key (conversation, id)
);
create index deliveries_by_conversation on deliveries (conversation, created_at, id);
create index deliveries_delivered on deliveries (conversation, session, id)
    where state = 'delivered';
create index deliveries_by_time on deliveries (created_at, conversation, id);
create index deliveries_by_session on deliveries (session, created_at, conversation, id);
create index deliveries_open on deliveries (created_at, conversation, id)
    where state in ('pending', 'sending', 'uncertain');

create table intents (
    session bigint not null,
    key bytea not null,
    digest bytea not null,
    conversation bigint not null,
    delivery bigint not null,
    created_at bigint not null,
    primary key (session, key)
) {{clustered}};
create index intents_by_time on intents (created_at);
