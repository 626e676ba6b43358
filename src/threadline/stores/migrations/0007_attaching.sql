-- Who runs a session's agent at the moment, and what each run was started for.

create table leases (
    session bigint not null,
    body text not null,
    primary key (session)
) {{clustered}};

create table runs (
    conversation bigint not null,
    session bigint not null,
    body text not null,
    primary key (conversation, session)
) {{clustered}};
