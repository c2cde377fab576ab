-- wake: who is told of what, by messages on the queue's channel. Their first
-- byte says which sort: w and the ids of claims that may look again, a for all
-- of them, f and the id of a final job. Events for those who watch go to the
-- channel of the registry.

local Wake = { tasks = {}, all = false }

-- ready notes that n jobs of a task can be claimed, or that somebody has to look
-- earlier than he means to.
function Wake.ready(task, n)
	if Q.idle > Q.now and not Q.is(RESTS) then Wake.tasks[task] = (Wake.tasks[task] or 0) + n end
end

-- everyone notes that all who wait are to look.
function Wake.everyone()
	if Q.idle > Q.now then Wake.all = true end
end

-- first returns a claim that waits for jobs of a task and has not been told.
function Wake.first(task)
	for _, key in ipairs({ P .. 'z' .. task, P .. 'z*' }) do
		for _ = 1, 16 do
			local _, waiter = top(key)
			if not waiter then break end
			call('ZREM', key, waiter)
			local until_ = call('ZSCORE', P .. 'Z', waiter)
			if until_ then
				call('ZREM', P .. 'Z', waiter)
				if tonumber(until_) > Q.now then return waiter end
			end
		end
	end
end

-- wait registers a claim that found too little; tasks nil is any.
function Wake.wait(waiter, tasks, until_)
	call('ZADD', P .. 'Z', until_, waiter)
	if until_ > Q.idle then Q.idle = until_ end
	if not tasks then
		call('ZADD', P .. 'z*', Q.next(), waiter)
		return
	end
	for _, no in ipairs(tasks) do call('ZADD', P .. 'z' .. no, Q.next(), waiter) end
end

function Wake.flush()
	if Wake.all then
		call('PUBLISH', CHANNEL, 'a')
		call('DEL', P .. 'Z')
		Q.idle = 0
	else
		local told = {}
		for task, n in pairs(Wake.tasks) do
			for _ = 1, min(n, 256) do
				local waiter = Wake.first(task)
				if not waiter then break end
				told[#told + 1] = waiter
			end
		end
		if #told > 0 then call('PUBLISH', CHANNEL, 'w' .. table.concat(told)) end
	end
	Wake.tasks, Wake.all = {}, false
end

-- final tells who waits for the end of a job.
function Wake.final(id)
	if Q.await > Q.now and call('ZREM', P .. 'B', id) == 1 then call('PUBLISH', CHANNEL, 'f' .. id) end
end

-- tell publishes an event: job j is in its state. That a cancellation is asked for
-- is rare, and told whether somebody watches or not.
function Wake.tell(j, worker)
	if Q.watch <= Q.now and j.reason ~= R_cancel_asked then return end
	call('PUBLISH', EVENTS, 'e' .. str(P) .. j.id .. str(Task.named(j.task)) .. str(worker or '') .. str(j.tenant) ..
		str(j.group) .. pack('>BBI8', j.state, j.reason, Q.now))
end
