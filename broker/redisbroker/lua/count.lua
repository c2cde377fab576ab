-- count: the kept numbers of each task (hash n), of the queue (its
-- configuration) and of each tenant but "" (hash q), and the names of tasks
-- (hash T: name to number, hash t: number to name).

local Task = { no = {}, name = {} }

-- find returns the number of a task, three bytes, or nil.
function Task.find(name)
	local no = Task.no[name]
	if no == nil then
		no = call('HGET', P .. 'T', name)
		Task.no[name] = no
	end
	return no or nil
end

function Task.make(name)
	local no = Task.find(name)
	if no then return no end
	Q.tasks = Q.tasks + 1
	no = pack('>I3', Q.tasks)
	call('HSET', P .. 'T', name, no)
	call('HSET', P .. 't', no, name)
	Task.no[name] = no
	return no
end

function Task.named(no)
	local name = Task.name[no]
	if not name then
		name = call('HGET', P .. 't', no) or '?'
		Task.name[no] = name
	end
	return name
end

-- all returns the numbers of all tasks.
function Task.all()
	local all = {}
	for i = 1, Q.tasks do all[i] = pack('>I3', i) end
	return all
end

local Count = { of = {}, format = '>' .. string.rep('I6', 14) }
-- Behind the six states.
local ENQUEUED, CLAIMED, ACKED, FAILED, EXPIRED, DIED, CANCELS, DELETED = 7, 8, 9, 10, 11, 12, 13, 14

-- task returns the numbers of a task, to be changed.
function Count.task(no)
	local c = Count.of[no]
	if not c then
		local s = call('HGET', P .. 'n', no)
		if s then c = { unpack_(Count.format, s) } else c = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 } end
		c.was = s
		Count.of[no] = c
	end
	return c
end

-- Load is what capacities count. That of the tenant "" is the queue's less that
-- of all others.
local Load = { of = {} }

function Load.tenant(name)
	local l = Load.of[name]
	if not l then
		local s = call('HGET', P .. 'q', name)
		if s then
			local a, b, c, d = unpack_('>I6I8I6I8', s)
			l = { a, b, c, d }
		else
			l = { 0, 0, 0, 0 }
		end
		Load.of[name] = l
	end
	return l
end

-- carry counts a job of some bytes in (by 1) or out (by -1).
function Load.carry(tenant, size, by)
	Q.depth, Q.bytes = Q.depth + by, Q.bytes + by * size
	if Q.depth > Q.high then Q.high = Q.depth end
	if tenant ~= '' then
		Q.tdepth, Q.tbytes = Q.tdepth + by, Q.tbytes + by * size
		local l = Load.tenant(tenant)
		l[1], l[2] = l[1] + by, l[2] + by * size
	end
end

-- idle counts a ready job.
function Load.idle(tenant, size, by)
	Q.ready, Q.rbytes = Q.ready + by, Q.rbytes + by * size
	if tenant ~= '' then
		Q.tready, Q.trbytes = Q.tready + by, Q.trbytes + by * size
		local l = Load.tenant(tenant)
		l[3], l[4] = l[3] + by, l[4] + by * size
	end
end

-- idle_many counts n jobs of some bytes in all as ready no more.
function Load.idle_many(tenant, n, size)
	Q.ready, Q.rbytes = Q.ready - n, Q.rbytes - size
	if tenant ~= '' then
		Q.tready, Q.trbytes = Q.tready - n, Q.trbytes - size
		local l = Load.tenant(tenant)
		l[3], l[4] = l[3] - n, l[4] - size
	end
end

-- has returns the load of a tenant: jobs, bytes, and those of them that are ready.
function Load.has(tenant)
	if tenant == '' then return { Q.depth - Q.tdepth, Q.bytes - Q.tbytes, Q.ready - Q.tready, Q.rbytes - Q.trbytes } end
	return Load.tenant(tenant)
end

function Count.flush()
	for no, c in pairs(Count.of) do
		local s = pack(Count.format, unpack(c, 1, 14))
		if s ~= c.was then
			Buf.hset(P .. 'n', no, s)
			c.was = s
		end
	end
	for tenant, l in pairs(Load.of) do
		Buf.hset(P .. 'q', tenant, l[1] > 0 and pack('>I6I8I6I8', l[1], l[2], l[3], l[4]))
	end
end
