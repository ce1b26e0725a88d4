import { openLog } from '../../src/log.ts';
import { type Service, type Surroundings, startService } from '../../src/service.ts';
import { testConfig, type World, withTestClock } from './world.ts';

/**
 * Starts one more service over a world's database, with settings of its own. The caller stops it,
 * before the world closes.
 */
export function startBeside(
  world: World,
  env: Record<string, string>,
  surroundings: Surroundings = {},
): Promise<Service> {
  return startService(testConfig(world.mint.url, env), {
    database: world.database,
    log: openLog('silent'),
    ...withTestClock(surroundings),
  });
}
