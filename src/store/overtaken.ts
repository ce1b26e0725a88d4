/**
 * Somebody else was first with what a transaction was about to write. Nothing of it may be committed; begun again, it
 * finds what is there now.
 */
export class Overtaken extends Error {
  constructor() {
    super('somebody else was first with what was about to be written: begin again');
  }
}
