-- pick: which lanes a claim serves, and in which order.

local Pick = {}

-- slots returns where lanes of some tasks can be found: the open ones, and those
-- at gates that may have room. more says that there are more such gates than a
-- claim looks at.
function Pick.slots(tasks)
	local list, more = {}, false
	for _, task in ipairs(tasks) do list[#list + 1] = { S = 'o' .. task, stale = true } end
	if Q.parked == 0 then return list, false end
	local gates = Gate.some(101)
	if #gates > 100 then more = true end
	local wanted = {}
	for _, task in ipairs(tasks) do wanted[task] = true end
	for _, gate in ipairs(gates) do
		for _, task in ipairs(call('SMEMBERS', P .. 'y' .. gate)) do
			if wanted[task] then list[#list + 1] = { S = Gate.stand(gate, task), gate = gate, task = task, stale = true } end
		end
	end
	return list, more
end

-- leaders returns the two best candidates.
function Pick.leaders(slots)
	local best, second
	for _, s in ipairs(slots) do
		if s.stale then
			s.c = not s.gone and Stand.best(s.S) or nil
			if s.c then s.c.slot = s end
			s.stale = false
		end
		local c = s.c
		if c then
			if not best or Stand.before(c, best) then
				best, second = c, best
			elseif not second or Stand.before(c, second) then
				second = c
			end
		end
	end
	return best, second
end

-- served notes that a candidate was served, when the virtual time was now. What other
-- slots have found of its priority stays the best there, unless it is of the same
-- tenant, or the time went on and several tenants stand there.
function Pick.served(slots, c, now)
	local is = Turn.now(c.pb)
	for _, s in ipairs(slots) do
		local o = s.c
		if s == c.slot then
			s.stale = true
		elseif o and o.pb == c.pb and (is ~= now or o.tenant == c.tenant) then
			if o.sole then o.eff = Turn.effective(o.pb, o.tenant) else s.stale = true end
		end
	end
end

-- away parks a lane that a gate refused, or shuts the gate that it waited at.
function Pick.away(slots, c, l, gate, until_)
	if c.slot.gate == gate then
		Gate.shut(gate, until_)
		for _, s in ipairs(slots) do
			if s.gate == gate and Gate.binds(gate, s.task) then s.gone, s.stale = true, true end
		end
		return
	end
	Gate.park(l, gate)
	Gate.wake(gate, until_)
	c.slot.stale = true
	for _, s in ipairs(slots) do
		if s.gate == gate then s.stale = true end
	end
end

-- real reports whether a candidate is what it shows. One that stands where it
-- should not is taken out of there.
function Pick.real(c, l)
	local h = l.head
	if h and h.at == c.at and h.sq == c.sq then return true end
	Stand.change(c.S, l, { at = c.at, sq = c.sq }, nil)
	if h then Stand.prove((Lane.stand(l)), l, h) end
	c.slot.stale = true
	return false
end

-- next returns the lane that a claim of some tasks would serve first, and its
-- first job, nil for none. As a claim does, it parks what is refused.
function Pick.next(tasks)
	local slots = Pick.slots(tasks)
	for _ = 1, 100 do
		local best = Pick.leaders(slots)
		if not best then return nil end
		local l = Lane.get(best.lane)
		if Pick.real(best, l) then
			local first = Lane.first(l)
			local gate, until_ = Gate.refuses(l, first)
			if not gate then return l, first end
			Pick.away(slots, best, l, gate, until_)
		end
	end
end

-- alone reports whether nothing but place decides between a candidate and all
-- others of its priority.
function Pick.alone(slots, c)
	if Q.ageing ~= 0 then
		for _, s in ipairs(slots) do
			if s.c and s.c ~= c then return false end
		end
		if call('ZCARD', P .. c.S .. 'v') > 1 then return false end
	end
	for _, s in ipairs(slots) do
		local o = s.c
		if o and o ~= c and o.pb == c.pb and (o.tenant ~= c.tenant or not o.sole) then return false end
	end
	return Stand.single(c.S, c.pb, c.tenant)
end
