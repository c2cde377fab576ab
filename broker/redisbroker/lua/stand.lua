-- stand: a set of lanes of one task out of which the best can be taken: the
-- open ones (o and the task), or those that wait at a gate (p, gate, task).
-- Its sorted sets: v priorities, highest first; for each priority b the tenants
-- that have had no more than their turn, by the head of their first lane, a the
-- others by service, g all of them by head (with ageing alone); and for each
-- tenant e its lanes by head.

local Stand = { known = {} }

local function seven(at) return pack('>I7', at) end

-- entrant puts a tenant where it belongs whose first head was (at0, sq0) and is
-- (at1, sq1) now; nil for none.
function Stand.entrant(S, pb, tenant, at0, sq0, at1, sq1)
	local base = P .. S
	local bk, ak, gk = base .. 'b' .. pb, base .. 'a' .. pb, base .. 'g' .. pb
	if at0 then
		if call('ZREM', bk, sq0 .. tenant) == 0 then call('ZREM', ak, seven(at0) .. sq0 .. tenant) end
		if Q.ageing ~= 0 then call('ZREM', gk, sq0 .. tenant) end
	end
	if at1 then
		local service = Turn.service(pb, tenant)
		if service <= Turn.now(pb) then
			call('ZADD', bk, at1, sq1 .. tenant)
		else
			call('ZADD', ak, service, seven(at1) .. sq1 .. tenant)
		end
		if Q.ageing ~= 0 then call('ZADD', gk, at1, sq1 .. tenant) end
		if not at0 and not Stand.known[bk] then
			call('ZADD', base .. 'v', 2147483648 - unpack_('>I4', pb), pb)
			Stand.known[bk] = true
		end
	elseif call('EXISTS', bk, ak) == 0 then
		call('ZREM', base .. 'v', pb)
		Stand.known[bk] = nil
	end
end

-- change moves lane l of a stand from head old to head new; nil for none. The
-- tenant moves when another lane comes first of its own.
function Stand.change(S, l, old, new)
	local ek = P .. S .. 'e' .. l.pb .. l.tenant
	local r = call('ZRANGE', ek, 0, 1, 'WITHSCORES')
	local m0, at0, m1, at1 = r[1], tonumber(r[2]), r[1], tonumber(r[2])
	if old then
		local m = old.sq .. l.id
		call('ZREM', ek, m)
		if m == m0 then m1, at1 = r[3], tonumber(r[4]) end
	end
	if new then
		local m = new.sq .. l.id
		call('ZADD', ek, new.at, m)
		if not m1 or new.at < at1 or new.at == at1 and less(m, m1) then m1, at1 = m, new.at end
	end
	if m0 ~= m1 or at0 ~= at1 then
		Stand.entrant(S, l.pb, l.tenant, at0, m0 and string.sub(m0, 1, 6), at1, m1 and string.sub(m1, 1, 6))
	end
end

-- Candidates are compared by what they show: lane, at, seq (the spot of its
-- head), tenant, pb, eff.
function Stand.before(x, y)
	if Q.ageing ~= 0 and x.aged ~= y.aged then return x.aged < y.aged end
	if x.pb ~= y.pb then return x.pb > y.pb end
	if x.eff ~= y.eff then return x.eff < y.eff end
	if x.at ~= y.at then return x.at < y.at end
	return less(x.sq, y.sq)
end

local function candidate(S, pb, tenant)
	local at, m = top(P .. S .. 'e' .. pb .. tenant)
	if not at then return nil end
	local c = { S = S, pb = pb, tenant = tenant, at = at, sq = string.sub(m, 1, 6), lane = string.sub(m, 7) }
	c.eff = Turn.effective(pb, tenant)
	if Q.ageing ~= 0 then c.aged = at - (unpack_('>I4', pb) - PLAIN) * Q.ageing end
	return c
end

-- first returns the score and the member of the first of a sorted set, and the member
-- behind it.
local function first(key)
	local r = call('ZRANGE', key, 0, 1, 'WITHSCORES')
	return tonumber(r[2]), r[1], r[3]
end

-- level returns the candidate of one priority; sole says that no other tenant stands
-- there. Tenants change sides late, when they come to the top.
function Stand.level(S, pb)
	local bk, ak = P .. S .. 'b' .. pb, P .. S .. 'a' .. pb
	local now = Turn.now(pb)
	for _ = 1, 1000 do
		local at, m, m2 = first(bk)
		local service, n, n2 = first(ak)
		local tenant = m and string.sub(m, 7)
		local other = n and string.sub(n, 14)
		if m and Turn.service(pb, tenant) > now then
			call('ZREM', bk, m)
			call('ZADD', ak, Turn.service(pb, tenant), seven(at) .. m)
		elseif n and Turn.service(pb, other) < now then
			call('ZREM', ak, n)
			call('ZADD', bk, (unpack_('>I7', n)), string.sub(n, 8))
		elseif n and Turn.service(pb, other) ~= service then
			call('ZADD', ak, Turn.service(pb, other), n)
		elseif not m and not n then
			return nil
		else
			-- Those whose service is just now are alike on both sides: the earlier head.
			local b = m ~= nil
			if m and n and service == now then
				local oat = unpack_('>I7', n)
				b = at < oat or at == oat and less(m, string.sub(n, 8))
			end
			local c = candidate(S, pb, b and tenant or other)
			if c then
				c.sole = not (m and n or m2 or n2)
				return c
			end
			call('ZREM', b and bk or ak, b and m or n) -- it stands there without a lane
		end
	end
end

-- prove puts a lane right that has head h, wherever it is missing in its stand.
-- It returns whether it was.
function Stand.prove(S, l, h)
	local base = P .. S
	local ek = base .. 'e' .. l.pb .. l.tenant
	local wrong = not call('ZSCORE', ek, h.sq .. l.id)
	if wrong then call('ZADD', ek, h.at, h.sq .. l.id) end
	local at, m = top(ek)
	local sq = string.sub(m, 1, 6)
	if not call('ZSCORE', base .. 'b' .. l.pb, sq .. l.tenant) and not call('ZSCORE', base .. 'a' .. l.pb, seven(at) .. sq .. l.tenant)
		or Q.ageing ~= 0 and not call('ZSCORE', base .. 'g' .. l.pb, sq .. l.tenant) then
		Stand.entrant(S, l.pb, l.tenant, at, sq, at, sq)
		wrong = true
	end
	return call('ZADD', base .. 'v', 2147483648 - unpack_('>I4', l.pb), l.pb) == 1 or wrong
end

-- turn takes out of members of a set g, whose heads were due at the same time, that of
-- the tenant to serve first.
local function turn(pb, members)
	local k, eff
	for i, m in ipairs(members) do
		local e = Turn.effective(pb, string.sub(m, 7))
		if not k or e < eff or e == eff and less(m, members[k]) then k, eff = i, e end
	end
	return string.sub(table.remove(members, k), 7)
end

-- oldest is best with ageing: of each priority the tenant whose head was due
-- first, and of those that are alike the one to serve first.
function Stand.oldest(S)
	local best
	for _, pb in ipairs(call('ZRANGE', P .. S .. 'v', 0, -1)) do
		local gk, c = P .. S .. 'g' .. pb, nil
		local at = top(gk)
		local members = at and call('ZRANGEBYSCORE', gk, at, at, 'LIMIT', 0, 100) or {}
		while members[1] and not c do c = candidate(S, pb, turn(pb, members)) end
		if c and (not best or Stand.before(c, best)) then best = c end
	end
	return best
end

-- best returns the lane that a claim serves first, or nil.
function Stand.best(S)
	if Q.ageing ~= 0 then return Stand.oldest(S) end
	local v = P .. S .. 'v'
	local from = 0
	while true do
		local pb = call('ZRANGE', v, from, from)[1]
		if not pb then return nil end
		local c = Stand.level(S, pb)
		if c then return c end
		from = from + 1
	end
end

-- tenants is how many stand at a priority.
function Stand.tenants(S, pb) return call('ZCARD', P .. S .. 'b' .. pb) + call('ZCARD', P .. S .. 'a' .. pb) end

-- single reports whether one lane alone stands at a priority.
function Stand.single(S, pb, tenant)
	return Stand.tenants(S, pb) == 1 and call('ZCARD', P .. S .. 'e' .. pb .. tenant) == 1
end
