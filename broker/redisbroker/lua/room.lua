-- room: capacities, and the jobs that are dropped for newer ones. String A: the
-- capacity of the queue and of each tenant: jobs, bytes, whether the oldest go.

local Room = {}

local FEW = 128 -- places in which the lanes of a tenant are looked for

-- fresh lists the jobs of a call that an enqueue would add.
local function fresh(jobs)
	local ids, keys, list = {}, {}, {}
	for _, n in ipairs(jobs) do
		local task = Task.find(n.task)
		local key = n.key ~= '' and n.task .. '\0' .. n.key
		if not ids[n.id] and not (key and keys[key]) and not (n.new == 0 and Job.load(n.id)) and not (key and task and Key.holder(task, n.key)) then
			ids[n.id] = true
			if key then keys[key] = true end
			list[#list + 1] = n
		end
	end
	return list
end

local function over(c, jobs, bytes) return c[1] > 0 and jobs > c[1] or c[2] > 0 and bytes > c[2] end

-- walk begins a walk through the ready jobs of a lane in the order in which they
-- are dropped.
local function walk(id)
	local l = Lane.get(id)
	return { l = l, from = 0, queue = {}, at = 1, first = l.head and Lane.first(l) }
end

-- source gives walks in the order in which their lanes have something to drop: by
-- priority, lowest first, then by their heads. tenant nil is all.
local function source(tenant)
	local s = { pbs = call('ZREVRANGE', P .. 'r', 0, -1), k = 1, from = 0, list = {}, i = 1 }
	if tenant and Q.parked == 0 and Q.tasks * #s.pbs <= FEW then s.tenant = tenant
	elseif tenant then s.pbs, s.list = {}, Room.lanes(tenant) end
	return s
end

-- lanes lists what stands in h of the lanes of a tenant, which a script reads once for
-- all tenants: those of one that wait at gates stand nowhere together.
function Room.lanes(tenant)
	if not Room.by then
		Room.by = {}
		for _, pb in ipairs(call('ZREVRANGE', P .. 'r', 0, -1)) do
			Buf.one(P .. 'h' .. pb)
			for _, m in ipairs(call('ZRANGE', P .. 'h' .. pb, 0, -1)) do
				local name = string.sub(m, 17, 16 + unpack_('>I2', m, 15))
				local list = Room.by[name]
				if not list then list = {}; Room.by[name] = list end
				list[#list + 1] = m
			end
		end
	end
	return Room.by[tenant] or {}
end

-- open returns the next of a tenant's open lanes of a priority: they stand by task.
local function open(s, pb)
	if not s.tasks then
		s.tasks = {}
		for _, task in ipairs(Task.all()) do
			s.tasks[#s.tasks + 1] = { key = P .. 'o' .. task .. 'e' .. pb .. s.tenant, from = 0, list = {}, i = 1 }
		end
	end
	local best
	for _, t in ipairs(s.tasks) do
		if t.i > #t.list and not t.over then
			t.list, t.i = call('ZRANGE', t.key, t.from, t.from + 63, 'WITHSCORES'), 1
			t.from, t.over = t.from + 64, #t.list < 128
		end
		local m, at = t.list[t.i], tonumber(t.list[t.i + 1])
		if m and (not best or at < best.at or at == best.at and less(m, best.m)) then best = { t = t, m = m, at = at } end
	end
	if not best then return nil end
	best.t.i = best.t.i + 2
	return best.m
end

-- more returns the next walk of a source, or nil.
local function more(s)
	while s.list[s.i] or s.pbs[s.k] do
		local m = s.list[s.i]
		s.i = s.i + 1
		if m then
			local w = walk(string.sub(m, 7))
			if w.first then return w end
		elseif s.tenant then
			s.list, s.i = { open(s, s.pbs[s.k]) }, 1
			if #s.list == 0 then s.k, s.tasks = s.k + 1, nil end
		else
			local hk = P .. 'h' .. s.pbs[s.k]
			Buf.one(hk)
			s.list, s.i = call('ZRANGE', hk, s.from, s.from + 63), 1
			s.from = s.from + 64
			if #s.list == 0 then s.k, s.from = s.k + 1, 0 end
		end
	end
end

-- peek returns the next job of a walk: its id and spot.
local function peek(w)
	local l = w.l
	if w.first then return w.first, l.head.at, l.head.sq, 0 end
	while true do
		if w.at > #w.queue then
			w.queue = call('ZRANGE', l.key, w.from, w.from + 63, 'WITHSCORES')
			w.from, w.at = w.from + 64, 1
			if #w.queue == 0 then return nil end
		end
		local m = w.queue[w.at]
		if string.sub(m, 7) ~= w.skip then return string.sub(m, 7), tonumber(w.queue[w.at + 1]), string.sub(m, 1, 6), 1 end
		w.at = w.at + 2
	end
end

local function step(w)
	if w.first then w.skip, w.first = w.first, nil else w.at = w.at + 2 end
end

-- before reports whether the job that a walk shows is dropped before that of
-- another.
local function before(x, y)
	if x.l.prio ~= y.l.prio then return x.l.prio < y.l.prio end
	if x.show.at ~= y.show.at then return x.show.at < y.show.at end
	if x.show.sq ~= y.show.sq then return less(x.show.sq, y.show.sq) end
	return x.show.own < y.show.own
end

-- show has a walk show its next job. It returns whether there is one.
local function show(w)
	local id, at, sq, own = peek(w)
	w.show = id and { id = id, at = at, sq = sq, own = own }
	return id
end

-- sink puts the first of a heap of walks where it belongs, lift the last.
local function sink(heap)
	local i, n = 1, #heap
	while true do
		local k = 2 * i
		if k > n then return end
		if k < n and before(heap[k + 1], heap[k]) then k = k + 1 end
		if not before(heap[k], heap[i]) then return end
		heap[i], heap[k] = heap[k], heap[i]
		i = k
	end
end

local function lift(heap)
	local i = #heap
	while i > 1 do
		local k = floor(i / 2)
		if not before(heap[i], heap[k]) then return end
		heap[i], heap[k] = heap[k], heap[i]
		i = k
	end
end

-- pass goes on to the next job of the first walk of a heap.
local function pass(heap)
	step(heap[1])
	if not show(heap[1]) then
		heap[1] = heap[#heap]
		heap[#heap] = nil
	end
	if heap[1] then sink(heap) end
end

-- victims adds to dropped what has to go so that more jobs fit into c: of the
-- lowest priority first, and of those the longest waiting. It returns whether
-- they then fit. A lane is looked at once those before it have nothing earlier.
local function victims(c, tenant, jobs, bytes, dropped)
	local from, heap = source(tenant), {}
	local next = more(from)
	if next then show(next) end
	while over(c, jobs, bytes) do
		if next and (not heap[1] or before(next, heap[1])) then
			heap[#heap + 1] = next
			lift(heap)
			next = more(from)
			if next then show(next) end
		elseif not heap[1] then
			return false
		else
			local id = heap[1].show.id
			local j = not dropped[id] and Job.load(id)
			if j and j.state == READY then
				jobs, bytes = jobs - 1, bytes - j.bytes
				dropped[id] = true
				dropped[#dropped + 1] = j
			end
			pass(heap)
		end
	end
	return true
end

-- fit looks whether the fresh jobs of a tenant (nil: all) fit into c. It adds to
-- dropped what has to go for them, or returns the answer of a full queue.
local function fit(c, tenant, list, dropped)
	local n, bytes = 0, 0
	for _, f in ipairs(list) do
		if not tenant or f.tenant == tenant then n, bytes = n + 1, bytes + f.bytes end
	end
	local load = tenant and Load.has(tenant) or { Q.depth, Q.bytes, Q.ready, Q.rbytes }
	local jobs, size = n + load[1], bytes + load[2]
	for _, j in ipairs(dropped) do -- of tenants, counted already
		if not tenant or j.tenant == tenant then jobs, size = jobs - 1, size - j.bytes end
	end
	if not over(c, jobs, size) then return nil end
	if c[3] == 1 and victims(c, tenant, jobs, size, dropped) then return nil end
	local never = over(c, n, bytes) and 1 or 0
	return FULL .. pack('>BBI8I8I8I8I8I8', never, tenant and 1 or 0, load[1], c[1], n, load[2], c[2], bytes) .. str(tenant or '')
end

-- make makes room for the jobs of a call, or returns the answer of a full queue
-- and has changed nothing. Each tenant's capacity is looked at before the queue's.
function Room.make(jobs)
	if not Q.is(CAPS) then return nil end
	local s = call('GET', P .. 'A')
	local all, each = {}, {}
	all[1], all[2], all[3], each[1], each[2], each[3] = unpack_('>ddBddB', s)
	Lane.flush()
	local list, dropped, seen = fresh(jobs), {}, {}
	if #list == 0 then return nil end
	if each[1] > 0 or each[2] > 0 then
		for _, n in ipairs(list) do
			if not seen[n.tenant] then
				seen[n.tenant] = true
				local full = fit(each, n.tenant, list, dropped)
				if full then return full end
			end
		end
	end
	if all[1] > 0 or all[2] > 0 then
		local full = fit(all, nil, list, dropped)
		if full then return full end
	end
	for _, j in ipairs(dropped) do Life.final(j, CANCELLED, R_dropped, {}) end
	return nil
end
