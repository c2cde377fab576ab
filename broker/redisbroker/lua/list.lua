-- list reads a page: jobs of one state in the order in which they entered it.
-- Call: call id (none), state, place (score, number), most jobs, most records to
-- look at, filter. Answer: status, whether it is at the end, place of the last
-- record looked at, records looked at, number of jobs, jobs.

local BYTES = 8388608

local function list(arg)
	local _, state, at, seq, most, look, i = unpack_('>c16BI8I6I4I4', arg)
	local f = Walk.filter(arg, i)
	Q.promote(200)
	Lane.flush()
	Count.flush()
	Buf.flush()
	local out, bytes, seen, over = {}, 0, 0, true
	if #f.ids > 0 then
		for _, j in ipairs(Walk.named(f, state, at, seq)) do
			if #out == most then over = false; break end
			at, seq = j.changed, j.eseq
			out[#out + 1] = Job.show(j)
		end
	else
		local w = Walk.state(state, at, seq)
		while true do
			if #out == most or seen == look or bytes > BYTES then
				over = Walk.next(w) == nil
				break
			end
			local j = Walk.next(w)
			if not j then break end
			seen = seen + 1
			at, seq = j.changed, j.eseq
			if Walk.chosen(f, j) then
				out[#out + 1] = Job.show(j)
				bytes = bytes + #out[#out]
			end
		end
	end
	return OK .. pack('>BI8I6I4I4', over and 1 or 0, at, seq, seen, #out) .. table.concat(out)
end

return run(list)
