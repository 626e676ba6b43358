-- Bearer tokens by their keyed hash. The secret itself is nowhere.

create table tokens (
    hash bytea not null,
    id bigint not null,
    body text not null,
    primary key (hash)
) {{clustered}};
create unique index tokens_by_id on tokens (id);
