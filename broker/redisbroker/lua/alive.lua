-- alive: the registered workers.

local Worker = {}

-- real is the server's time in µs: registrations end by it, whatever a test
-- makes of the clock.
function Worker.real()
	local t = call('TIME')
	return t[1] * 1000000 + t[2]
end

-- live lists the workers that listen to the queue and live: for each its id, and
-- the set of its tasks, nil for any. Hash g: worker to until when, through which
-- client, whether it takes any task, and its tasks.
function Worker.live()
	if Worker.list then return Worker.list end
	local list, now = {}, Worker.real()
	local all = call('HGETALL', P .. 'g')
	for i = 1, #all, 2 do
		local s = all[i + 1]
		local until_, _, any, n, at = unpack_('>I8c16BI2', s)
		if until_ > now then
			local w = { id = all[i] }
			if any == 0 then
				w.tasks, w.names = {}, {}
				for k = 1, n do
					local name
					name, at = unpack_('>I2c0', s, at)
					w.tasks[name] = true
					w.names[k] = name
				end
			end
			list[#list + 1] = w
		end
	end
	Worker.list = list
	return list
end

-- takes reports whether a live worker takes jobs of a task, by its name.
function Worker.takes(name)
	for _, w in ipairs(Worker.live()) do
		if not w.tasks or w.tasks[name] then return true end
	end
	return false
end

-- leave takes a worker off, if a client registered it last ("" for any).
function Worker.leave(name, client)
	local s = call('HGET', P .. 'g', name)
	if s and (client == '' or string.sub(s, 9, 24) == client) then call('HDEL', P .. 'g', name) end
end
