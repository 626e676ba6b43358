-- name: search.drop_sqlite (conversation bigint, sequence bigint)
delete from search where rowid in (
    select s.id from {{rows}} k
    join search_rows s on s.conversation = k.conversation and s.sequence = k.sequence);

-- name: search.drop_postgres (conversation bigint, sequence bigint)
delete from search where (conversation, sequence) in (select k.conversation, k.sequence from {{rows}} k);

-- name: search.sweep_sqlite
delete from search where rowid in (
    select s.id from search_rows s where s.conversation = $1 and s.sequence < $2);

-- name: search.sweep_postgres
delete from search where conversation = $1 and sequence < $2;
