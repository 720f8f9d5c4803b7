# Supervisor: runs the server while the writing end of standard input is open; see running.rs.
folder=$1 record=$2 signal=$3
shift 3
exec 3<&0 </dev/null
"$@" 3<&- &
server=$!
echo "$server" > "$folder/pid"
# The standard input of a shell's background command is /dev/null by default, hence the copy on 3.
{ cat <&3 >/dev/null; : > "$folder/stopping"; kill -s "$signal" "$server" 2>/dev/null; } &
watch=$!
exec 3<&-
wait "$server"
status=$?
if [ -e "$folder/stopping" ]; then
    rm -rf "$folder" "$record"
else
    # It ended by itself: its output is kept, and its process id is not signalled, as it may be reused.
    kill -s KILL "$watch" 2>/dev/null
fi
exit "$status"
