-- worker registers workers with a queue (hash g), or takes them off, says until
-- when somebody watches, and makes the queue when there is none.
-- Call: call id (none), ms that registrations last, µs to watch, number; for each:
-- worker, whether it leaves, entry (client, any task, number, names) behind its time;
-- of one that leaves the client alone, or nothing: whoever registered it.
-- Answer: status.

local function worker(arg)
	local _, ms, watch, n, i = unpack_('>c16I8I8I4', arg)
	if watch > 0 then Q.watch = max(Q.watch, Q.now + watch) end
	local until_ = Worker.real() + ms * 1000
	for _ = 1, n do
		local name, leaves, entry
		name, leaves, entry, i = unpack_('>I2c0BI4c0', arg, i)
		if leaves == 1 then
			Worker.leave(name, entry)
		else
			call('HSET', P .. 'g', name, pack('>I8', until_) .. entry)
		end
	end
	Worker.list = nil
	return OK
end

if call('EXISTS', KEYS[1]) == 0 and string.sub(KEYS[1], -1) == 'c' then Q.make() end -- a part is made by spread.lua
return run(worker)
