-- walk: goes through the jobs of a state in the order in which they entered it.

local Walk = {}

-- stream is a walk through one sorted set from a place on: score, number.
local function stream(key, at, seq, lane)
	return { key = key, at = at, sq = pack('>I6', seq), lane = lane, list = {}, i = 1, skip = true }
end

-- fill reads more of a stream. It returns false at its end.
local function fill(s)
	if s.over then return false end
	local list = call('ZRANGEBYSCORE', s.key, string.format('%.0f', s.at), '+inf', 'WITHSCORES', 'LIMIT', s.from or 0, 128)
	s.list, s.i = list, 1
	s.from = (s.from or 0) + 128
	if #list < 256 then s.over = true end
	return #list > 0
end

-- peek returns the next entry of a stream behind its place: score, member.
local function peek(s)
	while true do
		if s.i > #s.list and not fill(s) then return nil end
		local m, at = s.list[s.i], tonumber(s.list[s.i + 1])
		if at and (at > s.at or less(s.sq, m)) then return at, m end
		s.i = s.i + 2
	end
end

-- state starts a walk behind a place (0, 0 is the start).
function Walk.state(state, at, seq)
	local streams = { stream(P .. 'L' .. state, at, seq) }
	if state == READY then
		for _, task in ipairs(Task.all()) do
			streams[#streams + 1] = stream(P .. 'l' .. task .. pack('>I4BI2', PLAIN, 0, 0), at, seq, true)
		end
	end
	return { streams = streams, state = state }
end

-- next returns the next job of a walk, read whole if asked, or nil; entries that
-- have no such job are passed over.
function Walk.next(w, whole)
	while true do
		local best, bat, bm
		for _, s in ipairs(w.streams) do
			local at, m = peek(s)
			if at and (not best or at < bat or at == bat and less(m, bm)) then best, bat, bm = s, at, m end
		end
		if not best then return nil end
		best.i = best.i + 2
		local id = string.sub(bm, 7)
		local j
		if whole then j = Job.whole(id) else j = Job.load(id) end
		w.seen = (w.seen or 0) + 1
		if j and j.state == w.state and not (best.lane and Job.is(j, APART)) then return j end
		if w.seen > 2000 then return nil end
	end
end

-- filter unpacks what a reader chooses by.
function Walk.filter(s, i)
	local f = { ids = {} }
	local n
	f.task, f.tenant, f.group, f.key, f.text, f.older, f.newer, n, i = unpack_('>I2c0I2c0I2c0I2c0I4c0I8I8I4', s, i)
	for k = 1, n do f.ids[k], i = unpack_('>c16', s, i) end
	f.no = f.task ~= '' and (Task.find(f.task) or '') or nil
	return f, i
end

-- chosen reports whether a filter chooses a job.
function Walk.chosen(f, j)
	if f.no and j.task ~= f.no or f.tenant ~= '' and j.tenant ~= f.tenant or f.group ~= '' and j.group ~= f.group then return false end
	if f.key ~= '' and Job.ext(j).key ~= f.key then return false end
	if f.older > 0 or f.newer > 0 then
		local age = Q.now - j.changed
		if Job.is(j, DUE) then age = (Job.is(j, WALL) and Q.wall or Q.now) - j.runat end
		if f.older > 0 and age < f.older or f.newer > 0 and age >= f.newer then return false end
	end
	if f.text ~= '' then
		local e = Job.get(j, 'e')
		if not e or not string.find(e, f.text, 1, true) then return false end
	end
	return true
end

-- named lists the jobs of some ids that are in a state, as that state's walk
-- would, behind a place.
function Walk.named(f, state, at, seq)
	local list, seen = {}, {}
	for _, id in ipairs(f.ids) do
		local j = not seen[id] and Job.load(id)
		seen[id] = true
		if j and j.state == state and (j.changed > at or j.changed == at and j.eseq > seq) and Walk.chosen(f, j) then list[#list + 1] = j end
	end
	table.sort(list, function(a, b)
		if a.changed ~= b.changed then return a.changed < b.changed end
		return a.eseq < b.eseq
	end)
	return list
end
