-- adopt lets the settings of a queue leave with a batch of their own, or puts in force
-- what arrives of them, if those that are here are still those that the caller saw.
-- Call: call id, move, what (1 leave, 3 arrive), number of the batch, runner and µs that
-- it is waited for (of what leaves), whether all have left, whether the queue is to be
-- paused (of what arrives), what leaves as text, what govern reads, number of cursors:
-- schedule, whether it is paused, its cursor.
-- Answer: status (conflict: the settings or the record say no), 1 when settings went,
-- 0 when there are jobs by now that have to go first.

-- may reports whether the record allows it; nil: it is done.
local function may(m, move, what, number, runner)
	if not m or m.id ~= move then return false end
	if what == ARRIVING and m.state >= ARRIVING and number <= m.batch then return nil end
	return m.state == what and number == m.batch + 1 and (what ~= LEAVING or m.runner == runner or Q.now >= m['until'])
end

local function left() return Q.depth + call('ZCARD', P .. 'L4') + call('ZCARD', P .. 'L5') + call('ZCARD', P .. 'L6') end

local function adopt(arg)
	local id, move, what, number, runner, ttl, whole, pause, text, i = unpack_('>c16c16BI8c16I8BBI4c0', arg)
	local was = Calls.get(id)
	if was then return was end
	local m = Move.read()
	local is = may(m, move, what, number, runner)
	if is == false then return CONFLICT end
	if is == nil then return OK .. '\1' end
	if what == LEAVING and (left() > 0 or call('EXISTS', P .. 'B!') == 1) then return OK .. '\0' end
	is, i = Govern.change(arg, i)
	if not is then return CONFLICT end
	local n
	n, i = unpack_('>I4', arg, i)
	for _ = 1, n do
		local name, cursor
		name, cursor, i = unpack_('>I2c0c9', arg, i)
		call('HSET', P .. 'C', name, cursor)
	end
	if what == LEAVING then
		call('SET', P .. 'O!', pack('>I4I4I4', 0, 0, 0) .. str(text) .. string.char(whole == 1 and Q.is(PAUSED) and 1 or 0))
		if whole == 1 then Q.mark(PAUSED, false) end
		Move.write(m, { batch = number, settled = whole, runner = runner, ['until'] = Q.now + ttl })
	else
		if pause == 1 then Q.mark(PAUSED, true) end
		Move.write(m, { batch = number, put = 0 })
	end
	Calls.keep(id, OK .. '\1')
	return OK .. '\1'
end

return run(adopt)
