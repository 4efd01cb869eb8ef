"""What runs on the server, each atomically: plain commands and Lua 5.1, as Redis 6.2 and later have them.

Every script is given the keys `log, gone, due, meta, entries` of one user (see `keys`; `entries` is the common start
of that user's entry keys, in the same slot).

A change number is one more than the user's last, and at least the server's time in microseconds: below 2^53 until the
year 2255, so that the scores of sorted sets hold it exactly. A server that comes back without its newest writes does
therefore not give their numbers away again. The first write to a user after a restart notes which numbers lie between
the last one that survived and its own (`lost_after`, `lost_before`).
"""

_COMMON = """
local LOG, GONE, DUE, META, ENTRIES = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local IDLE_S = 90 * 86400

local function text(number) return string.format('%.0f', number) end

local function server_time()
  local t = redis.call('TIME')
  return tonumber(t[1]) * 1000000 + tonumber(t[2])
end

local function run_id()
  local info = redis.pcall('INFO', 'server')
  return type(info) == 'string' and string.match(info, 'run_id:(%w+)') or ''
end

-- Returns the last number, after opening the log where it is new and noting what a crash may have taken.
local function begin(now, epoch)
  local meta = redis.call('HMGET', META, 'epoch', 'head', 'run', 'lost_before', 'idle')
  local head, run = tonumber(meta[2] or 0), run_id()
  if not meta[1] then
    redis.call('HSET', META, 'epoch', epoch, 'head', 0, 'floor', 0, 'run', run)
  elseif meta[3] ~= run then
    redis.call('HSET', META, 'run', run, 'lost_after', text(head), 'lost_before', text(math.max(head + 1, now)))
    if meta[4] then
      local floor = tonumber(redis.call('HGET', META, 'floor') or 0)
      redis.call('HSET', META, 'floor', text(math.max(floor, tonumber(meta[4]))))
    end
  end
  if meta[5] then
    redis.call('HDEL', META, 'idle')
    redis.call('PERSIST', META)
    redis.call('PERSIST', GONE)
  end
  return head
end

local function bury(member, number)
  redis.call('DEL', ENTRIES .. member)
  redis.call('ZREM', LOG, member)
  redis.call('ZREM', DUE, member)
  redis.call('ZADD', GONE, text(number), member)
end

-- Drops the oldest tombstones, and lets a user without memories be forgotten one day.
local function finish(head, keep)
  redis.call('HSET', META, 'head', text(head))
  local surplus = redis.call('ZCARD', GONE) - keep
  if surplus > 0 then
    local last = redis.call('ZRANGE', GONE, surplus - 1, surplus - 1, 'WITHSCORES')
    local floor = tonumber(redis.call('HGET', META, 'floor') or 0)
    redis.call('HSET', META, 'floor', text(math.max(floor, tonumber(last[2]))))
    redis.call('ZREMRANGEBYRANK', GONE, 0, surplus - 1)
  end
  if redis.call('EXISTS', LOG) == 0 then
    redis.call('HSET', META, 'idle', 1)
    redis.call('EXPIRE', META, IDLE_S)
    redis.call('EXPIRE', GONE, IDLE_S)
  end
end
"""

PUT = (
    _COMMON
    + """
-- ARGV: epoch, tombstones to keep, then for each entry: key, JSON, milliseconds to live ('' = for ever), expiry in
-- microseconds ('' = never).
local now = server_time()
local head = begin(now, ARGV[1])
for i = 3, #ARGV, 4 do
  local member, ttl, due = ARGV[i], ARGV[i + 2], ARGV[i + 3]
  local key = ENTRIES .. member
  head = math.max(head + 1, now)
  if ttl == '' then
    redis.call('SET', key, ARGV[i + 1])
  elseif tonumber(ttl) > 0 then
    redis.call('SET', key, ARGV[i + 1], 'PX', ttl)
  else
    redis.call('DEL', key)
  end
  redis.call('ZADD', LOG, text(head), member)
  redis.call('ZREM', GONE, member)
  if due == '' then redis.call('ZREM', DUE, member) else redis.call('ZADD', DUE, due, member) end
end
-- Each write clears away some of what the server has let expire, so that nothing grows between two purges.
local trimmed = false
for _, member in ipairs(redis.call('ZRANGEBYSCORE', DUE, '-inf', text(now), 'LIMIT', 0, 8)) do
  if redis.call('EXISTS', ENTRIES .. member) == 0 then
    head, trimmed = head + 1, true
    bury(member, head)
  end
end
if trimmed then finish(head, tonumber(ARGV[2])) else redis.call('HSET', META, 'head', text(head)) end
return 1
"""
)

REMOVE = (
    _COMMON
    + """
-- ARGV: epoch, key, now in microseconds, tombstones to keep. Returns whether a live entry was there, and whether the
-- user has nothing left. The epoch differs with each call: one that comes again, because its answer was lost on the
-- way, is recognised by it and answered as before.
local member = ARGV[2]
local nothing = function() return redis.call('EXISTS', LOG) == 0 and 1 or 0 end
if not redis.call('ZSCORE', LOG, member) then
  return {redis.call('HGET', META, 'removed') == ARGV[1] and 1 or 0, nothing()}
end
local due = redis.call('ZSCORE', DUE, member)
local live = redis.call('EXISTS', ENTRIES .. member) == 1 and (not due or tonumber(due) > tonumber(ARGV[3]))
local now = server_time()
local head = math.max(begin(now, ARGV[1]) + 1, now)
bury(member, head)
if live then redis.call('HSET', META, 'removed', ARGV[1]) end
finish(head, tonumber(ARGV[4]))
return {live and 1 or 0, nothing()}
"""
)

PURGE = (
    _COMMON
    + """
-- ARGV: epoch, now in microseconds, tombstones to keep, how many at most. Returns how many were removed, and when this
-- user is due again: in microseconds, 'never', 'idle' when nothing is left but the log, 'gone' when not even that.
local members = redis.call('ZRANGEBYSCORE', DUE, '-inf', ARGV[2], 'LIMIT', 0, tonumber(ARGV[4]))
if #members > 0 then
  local now = server_time()
  local head = begin(now, ARGV[1])
  for _, member in ipairs(members) do
    head = math.max(head + 1, now)
    bury(member, head)
  end
  finish(head, tonumber(ARGV[3]))
end
local next_due = redis.call('ZRANGE', DUE, 0, 0, 'WITHSCORES')[2]
if not next_due then
  if redis.call('EXISTS', META) == 0 then next_due = 'gone'
  elseif redis.call('EXISTS', LOG) == 0 then next_due = 'idle'
  else next_due = 'never' end
end
return {#members, next_due}
"""
)

PAGE = """
-- ARGV: after which number, how many at most. Returns the changes by number, each as `NUMBER:KEY` and JSON (or nil).
local LOG, GONE, ENTRIES = KEYS[1], KEYS[2], KEYS[5]
local LIMIT, CHUNK = tonumber(ARGV[2]), 500
local function above(set)
  return redis.call('ZRANGEBYSCORE', set, '(' .. ARGV[1], '+inf', 'WITHSCORES', 'LIMIT', 0, LIMIT)
end
local here, gone = above(LOG), above(GONE)
local out, names, places, i, j = {}, {}, {}, 1, 1

local function fetch()
  if #names == 0 then return end
  for place, body in ipairs(redis.call('MGET', unpack(names))) do out[places[place]] = body end
  names, places = {}, {}
end

for n = 1, LIMIT do
  if here[i] and (not gone[j] or tonumber(here[i + 1]) < tonumber(gone[j + 1])) then
    out[2 * n - 1], out[2 * n] = here[i + 1] .. ':' .. here[i], false
    names[#names + 1], places[#places + 1] = ENTRIES .. here[i], 2 * n
    if #names == CHUNK then fetch() end
    i = i + 2
  elseif gone[j] then
    out[2 * n - 1], out[2 * n] = gone[j + 1] .. ':' .. gone[j], false
    j = j + 2
  else
    break
  end
end
fetch()
return out
"""
