//! Scripts that run in one step on the server: they move an entry to another stream and acknowledge it, only
//! while it is pending for this consumer. A failing script leaves the entry where it was.

use std::sync::LazyLock;

use redis::Script;

/// Requeues entries for one group: copies each to the group's own stream with the attempts made and acknowledges
/// the original. Returns the ids that were no longer pending for this consumer.
///
/// The copy is made on the server, so that it is identical to the byte, also when it could not be decoded. An
/// entry without an id gets the one it was delivered with, and the content type it did not name, because an
/// entry of Punctual that names none is JSON.
pub(crate) static REQUEUE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "local lost = {}
        for i = 4, #ARGV, 4 do
          local id = ARGV[i]
          local pending = redis.call('XPENDING', KEYS[1], ARGV[1], id, id, 1, ARGV[2])
          local found = pending[1] and redis.call('XRANGE', KEYS[1], id, id)
          if found and found[1] then
            local old, new, known = found[1][2], {}, {}
            for n = 1, #old, 2 do
              if old[n] ~= 'punctual-attempt' then
                known[old[n]] = true
                new[#new + 1] = old[n]
                new[#new + 1] = old[n + 1]
              end
            end
            local function note(name, value)
              if not known[name] then
                new[#new + 1] = name
                new[#new + 1] = value
              end
            end
            if not known['punctual-id'] then note('content-type', ARGV[3]) end
            note('punctual-id', ARGV[i + 2])
            note('punctual-created', ARGV[i + 3])
            note('punctual-attempt', ARGV[i + 1])
            redis.call('XADD', KEYS[2], '*', unpack(new))
            redis.call('XACK', KEYS[1], ARGV[1], id)
            if KEYS[1] == KEYS[2] then redis.call('XDEL', KEYS[1], id) end
          else
            lost[#lost + 1] = id
          end
        end
        return lost",
    )
});

/// Writes a dead letter and acknowledges the original; returns 1, or 0 when it was no longer pending for this
/// consumer.
pub(crate) static REJECT: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "local pending = redis.call('XPENDING', KEYS[1], ARGV[1], ARGV[3], ARGV[3], 1, ARGV[2])
        if not pending[1] then return 0 end
        redis.call('XADD', KEYS[2], '*', unpack(ARGV, 5))
        redis.call('XACK', KEYS[1], ARGV[1], ARGV[3])
        if ARGV[4] == 'own' then redis.call('XDEL', KEYS[1], ARGV[3]) end
        return 1",
    )
});

/// Resets the idle time of entries that are pending for this consumer; returns how many were not.
pub(crate) static EXTEND: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "local lost = 0
        for i = 3, #ARGV do
          local pending = redis.call('XPENDING', KEYS[1], ARGV[1], ARGV[i], ARGV[i], 1, ARGV[2])
          if pending[1] then
            redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[2], 0, ARGV[i], 'JUSTID')
          else
            lost = lost + 1
          end
        end
        return lost",
    )
});

/// Removes consumers from a group that have no pending entries, because the server forgets pending entries with
/// their consumer: the one of this name, or all with this prefix that have been idle for the given time.
pub(crate) static REMOVE_IDLE_CONSUMERS: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "local gone = 0
        for _, found in ipairs(redis.call('XINFO', 'CONSUMERS', KEYS[1], ARGV[1])) do
          local one = {}
          for n = 1, #found, 2 do one[found[n]] = found[n + 1] end
          local ours = string.sub(one.name, 1, #ARGV[2]) == ARGV[2]
          if ours and one.pending == 0 and one.idle >= tonumber(ARGV[3]) then
            redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], one.name)
            gone = gone + 1
          end
        end
        return gone",
    )
});
