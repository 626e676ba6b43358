-- Files given to us to be said: whose they are and where they were said. Their bytes are on a disk.

create table files (
    id bigint not null,
    owner bigint not null,
    said smallint not null,
    size bigint not null,
    body text not null,
    primary key (id)
) {{clustered}};
create index files_owned on files (owner);
create index files_said on files (said, id);
