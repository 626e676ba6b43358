-- Where sessions are pushed to, one row a session, with the lease of the node that pushes.

create table push (
    session bigint not null primary key,
    active smallint not null,
    fence bigint not null,
    leased_until bigint,
    body text not null
);
create index push_active on push (session) where active = 1;
