-- turn: tenants of one priority share by weighted virtual time (package fair).
-- Hash u: priority to (now, most); hash v and priority: tenant to its service.

local Turn = { of = {}, unit = 720720 }

local function turn(pb)
	local t = Turn.of[pb]
	if not t then
		local s = call('HGET', P .. 'u', pb)
		t = { now = 0, most = 0, shares = {}, set = {} }
		if s then t.now, t.most = unpack_('>dd', s) else t.fresh = true end -- nobody was served: v is not there
		Turn.of[pb] = t
	end
	return t
end

-- now is how far the virtual time of a priority is.
function Turn.now(pb) return turn(pb).now end

-- service is what a tenant has had.
function Turn.service(pb, tenant)
	local t = turn(pb)
	local s = t.shares[tenant]
	if not s then
		local r = not t.cleared and not t.fresh and call('HGET', P .. 'v' .. pb, tenant)
		s = r and unpack_('>d', r) or 0
		t.shares[tenant] = s
	end
	return s
end

-- effective is the service that a claim compares.
function Turn.effective(pb, tenant) return max(Turn.service(pb, tenant), turn(pb).now) end

local function weight(tenant)
	if not Q.is(WEIGHTS) then return 1 end
	return tonumber(call('HGET', P .. 'V', tenant) or 1)
end

-- charge serves n jobs of a tenant.
function Turn.charge(pb, tenant, n)
	local t = turn(pb)
	local cost = max(floor(Turn.unit / weight(tenant) + 0.5), 1)
	local from = Turn.effective(pb, tenant)
	t.now = from + (n - 1) * cost
	local service = t.now + cost
	t.shares[tenant], t.set[tenant] = service, true
	if service > t.most then t.most = service end
	t.dirty = true
end

-- forget lets everybody begin anew: nothing is left that one would have a turn for.
function Turn.forget(pb, busy)
	local t = turn(pb)
	t.shares, t.set, t.cleared, t.dirty = {}, {}, true, true
	if busy then t.now = max(t.now, t.most) else t.now, t.most = 0, 0 end
end

function Turn.flush()
	for pb, t in pairs(Turn.of) do
		if t.dirty then
			if t.cleared then call('DEL', P .. 'v' .. pb) end
			for tenant in pairs(t.set) do Buf.hset(P .. 'v' .. pb, tenant, pack('>d', t.shares[tenant])) end
			Buf.hset(P .. 'u', pb, t.most > 0 and pack('>dd', t.now, t.most))
			t.dirty, t.cleared, t.set = false, false, {}
		end
	end
end
