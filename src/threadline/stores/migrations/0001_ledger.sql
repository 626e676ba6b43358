-- The ledger. Tables that grow with traffic are keyed by conversation first.

create table meta (
    name text primary key,
    value text not null
);

create table addresses (
    address text primary key,
    conversation bigint not null
);
create index addresses_by_conversation on addresses (conversation);

create table conversations (
    id bigint primary key,
    scope text not null,
    address text not null,
    kind text not null,
    next_sequence bigint not null,
    lowest_sequence bigint not null,
    earliest_sequence bigint not null,
    session bigint,
    due_at bigint,
    retained smallint not null,
    body text not null
);
create unique index conversations_by_address on conversations (scope, address);
create index conversations_by_session on conversations (session) where session is not null;
create index conversations_by_due on conversations (due_at) where due_at is not null;
create index conversations_by_retained on conversations (id) where retained = 1;

-- A heap with an index: spread writes are twice as quick as into a clustered table.
create table records (
    conversation bigint not null,
    sequence bigint not null,
    hydrated smallint not null,
    source bigint,
    recorded_at bigint not null,
    digest bytea not null,
    body text not null
);
create unique index records_by_sequence on records (conversation, sequence);

create table ids (
    conversation bigint not null,
    key bytea not null,
    sequence bigint,
    part smallint not null,
    primary key (conversation, key)
) {{clustered}};

create table revisions (
    conversation bigint not null,
    key bytea not null,
    at_conversation bigint not null,
    at_sequence bigint not null,
    event text not null,
    primary key (conversation, key, at_conversation, at_sequence)
) {{clustered}};

create table members (
    conversation bigint not null,
    session bigint not null,
    joined_sequence bigint not null,
    last_read bigint,
    closed_at bigint,
    gate bigint,
    body text not null,
    primary key (conversation, session)
) {{clustered}};
-- Of closed memberships too: PostgreSQL reads a partial index whole where it thinks it small.
create index members_by_session on members (session, conversation);
create index members_by_gate on members (conversation, session) where gate is not null;

create table participants (
    conversation bigint not null,
    handle text not null,
    session bigint not null,
    body text not null,
    primary key (conversation, handle)
) {{clustered}};

create table holds (
    conversation bigint not null,
    key bytea not null,
    position bigint not null,
    size bigint not null,
    body text not null,
    primary key (conversation, key)
);
create unique index holds_by_position on holds (conversation, position);

create table sessions (
    id bigint primary key,
    scope text not null,
    name text not null,
    body text not null
);
create index sessions_by_name on sessions (scope, name, id);

create table names (
    scope text not null,
    name text not null,
    session bigint not null,
    primary key (scope, name)
);

create table routes (
    scope text not null,
    provider text not null,
    account text not null,
    session bigint not null,
    primary key (scope, provider, account)
);

create index routes_by_session on routes (session);

create table parked (
    id bigint primary key,
    parked_at bigint not null,
    story text not null,
    reason text not null,
    body text not null,
    attempts bigint not null
);
create index parked_by_time on parked (parked_at, id);

-- sqlite:
create table search_rows (
    id integer primary key,
    conversation bigint not null,
    sequence bigint not null,
    unique (conversation, sequence)
);
create virtual table search using fts5 (
    place, words, content='', contentless_delete=1, tokenize='unicode61 remove_diacritics 2'
);
-- postgres:
create table search (
    conversation bigint not null,
    sequence bigint not null,
    recorded_at bigint not null,
    words tsvector not null,
    primary key (conversation, sequence)
);
create index search_by_word on search using gin (words);
create index search_by_time on search (recorded_at, conversation, sequence);
-- both:
create table indexed (
    conversation bigint primary key,
    lowest bigint not null,
    head bigint not null
);
