/** The columns of the outer side of a join: all are null where it has no row. */
export type MaybeJoined<Row> = { [Column in keyof Row]: Row[Column] | null };

/**
 * Makes a guard that tells whether the outer side of a join has a row.
 *
 * @param column one that is null in no row of it
 */
export function isJoined<Joined>(column: keyof Joined) {
  return <Row extends MaybeJoined<Joined>>(row: Row): row is Row & Joined => row[column] !== null;
}
