-- Room links, the guests that came by them, and logins of the page. Secrets are nowhere.

create table links (
    id bigint not null,
    hash bytea not null,
    conversation bigint not null,
    ends bigint not null,
    body text not null,
    primary key (id)
) {{clustered}};
create unique index links_by_hash on links (hash);
create index links_of_conversation on links (conversation, id);
create index links_by_end on links (ends);

create table guests (
    id bigint not null,
    hash bytea not null,
    conversation bigint not null,
    link bigint not null,
    body text not null,
    primary key (id)
) {{clustered}};
create unique index guests_by_hash on guests (hash);
create index guests_of_conversation on guests (conversation, id);
create index guests_of_link on guests (link);

create table logins (
    hash bytea not null,
    token bytea not null,
    ends bigint not null,
    primary key (hash)
) {{clustered}};
create index logins_by_end on logins (ends);
