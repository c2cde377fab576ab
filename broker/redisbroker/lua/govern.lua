-- govern: how the settings of a queue are put in force.
-- What it reads: revision that the caller saw, revision from now on, settings (S),
-- limits (R, "" for none), capacities (A, "" for none), ageing step µs, weights, and
-- retentions, each a number of pairs of name and value; whether the limits
-- differ; schedules: name and what becomes of it (0 gone, 1 new or with other
-- instants, 2 paused, 3 goes on); names of settings that changed.

local Govern = {}

-- reset puts new limits in force: claims look at all that is parked again, running
-- jobs are counted again, rates go on from where they were.
local function reset(limits)
	Lane.flush()
	Gate.flush()
	Buf.flush()
	Gate.look()
	Gate.load()
	local old = {}
	for _, r in ipairs(Gate.all) do old[r.name] = r end
	if limits == '' then call('DEL', P .. 'R') else call('SET', P .. 'R', limits) end
	Q.mark(LIMITS, limits ~= '')
	Gate.meters = {}
	Gate.load()
	local kept = {}
	for _, r in ipairs(Gate.all) do
		local o = old[r.name]
		kept[r.name] = o and o.per == r.per and o.running == 0 and r.running == 0
	end
	for name in pairs(old) do
		if not kept[name] then call('DEL', P .. 'm' .. name) end
	end
	Gate.recount()
end

-- age turns ageing on, off, or to another step: what stands is sorted by age, too.
local function age(step)
	if (step ~= 0) == (Q.ageing ~= 0) then
		Q.ageing = step
		return
	end
	Lane.flush()
	local lanes = {}
	for _, pb in ipairs(call('ZRANGE', P .. 'r', 0, -1)) do
		Buf.one(P .. 'h' .. pb)
		for _, m in ipairs(call('ZRANGE', P .. 'h' .. pb, 0, -1)) do lanes[#lanes + 1] = Lane.get(string.sub(m, 7)) end
	end
	for _, l in ipairs(lanes) do Stand.change((Lane.stand(l)), l, l.stood, nil) end
	Q.ageing = step
	for _, l in ipairs(lanes) do Stand.change((Lane.stand(l)), l, nil, l.stood) end
end

-- replace replaces a hash by the pairs in arg from i on.
local function replace(key, arg, i)
	local n
	n, i = unpack_('>I4', arg, i)
	local args = {}
	for k = 1, 2 * n do args[k], i = unpack_('>I2c0', arg, i) end
	call('DEL', P .. key)
	many('HSET', P .. key, args)
	return n > 0, i
end

local function schedules(arg, i)
	local n
	n, i = unpack_('>I4', arg, i)
	for _ = 1, n do
		local name, what
		name, what, i = unpack_('>I2c0B', arg, i)
		local c = call('HGET', P .. 'C', name) or string.rep('\0', 9)
		if what == 0 then
			call('HDEL', P .. 'C', name)
		elseif what == 1 then
			call('HSET', P .. 'C', name, string.sub(c, 1, 1) .. string.rep('\0', 8))
		else
			call('HSET', P .. 'C', name, (what == 2 and '\1' or '\0') .. string.sub(c, 2))
		end
	end
	return i
end

-- told publishes which settings changed: they do seldom, and workers watch them.
local function told(arg, i)
	local n
	n, i = unpack_('>I4', arg, i)
	for _ = 1, n do
		local kind, name
		kind, name, i = unpack_('>I2c0I2c0', arg, i)
		call('PUBLISH', EVENTS, 's' .. str(P) .. str(kind) .. str(name) .. pack('>I8', Q.now))
	end
	return i
end

-- change replaces the settings by those in arg from i on, if they are those that the
-- caller saw. It returns whether they are, and where it ends.
function Govern.change(arg, i)
	local saw, revision, set, limits, capacities, ageing
	saw, revision, set, limits, capacities, ageing, i = unpack_('>I6I6I4c0I4c0I2c0d', arg, i)
	if saw ~= Q.revision then return false, i end
	Q.promote(200)
	call('SET', P .. 'S', set)
	Q.revision = revision
	local on
	on, i = replace('V', arg, i)
	Q.mark(WEIGHTS, on)
	on, i = replace('N', arg, i)
	Q.mark(RETAINS, on)
	if capacities == '' then call('DEL', P .. 'A') else call('SET', P .. 'A', capacities) end
	Q.mark(CAPS, capacities ~= '')
	age(ageing)
	local differ
	differ, i = unpack_('>B', arg, i)
	if differ == 1 then reset(limits) end
	i = schedules(arg, i)
	i = told(arg, i)
	Wake.everyone()
	return true, i
end
