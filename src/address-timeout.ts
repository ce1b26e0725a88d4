import { setDefaultAutoSelectFamilyAttemptTimeout } from 'node:net';

// How long an attempt to connect to one of several addresses of a host may take. Node's default (500 ms) ends before a
// lost packet is sent again, after one second. Two attempts fit into the connect timeouts. For all connections of this
// thread, because `pg` has no option for it.
setDefaultAutoSelectFamilyAttemptTimeout(2_500);
