import { setDefaultAutoSelectFamilyAttemptTimeout } from 'node:net';

// If a host has several IP addresses, Node tries one after the other. This is the time for each of them, for all
// connections of this thread, because `pg` has no option for it. Two attempts fit into the connect timeouts. A lost
// packet is sent again after one second, which Node's default of 500 ms does not allow.
setDefaultAutoSelectFamilyAttemptTimeout(2_500);
