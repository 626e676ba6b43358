-- name: push.load (session bigint)
select p.session, p.fence, p.leased_until, p.body from {{rows}} k join push p on p.session = k.session
{{order p.session}} {{lock p}};

-- name: push.save (session bigint, active smallint, fence bigint, leased_until bigint, body text)
insert into push (session, active, fence, leased_until, body)
select k.session, k.active, k.fence, k.leased_until, k.body from {{rows}} k where true
on conflict (session) do update set active = excluded.active, fence = excluded.fence,
    leased_until = excluded.leased_until, body = excluded.body;

-- name: push.drop (session bigint)
delete from push where (session) in (select k.session from {{rows}} k);

-- name: push.active
select p.session, p.fence, p.leased_until, p.body from push p
where p.active = 1 and p.session > $1 order by p.session limit $2;
