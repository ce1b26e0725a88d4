import { setDefaultAutoSelectFamilyAttemptTimeout } from 'node:net';

// Limits an attempt to connect to one of several IP addresses of a host. Node's default (500 ms) ends before a lost
// packet is sent again, after one second. Two attempts fit into the connect timeouts. The limit applies to all
// connections of this thread, because `pg` has no option for it.
setDefaultAutoSelectFamilyAttemptTimeout(2_500);
