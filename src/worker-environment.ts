import module from 'node:module';
import path from 'node:path';

/** Returns all that worker threads need: the choice of certificate authorities, and the compile cache (saves 10 MB). */
export function createWorkerEnvironment(): NodeJS.ProcessEnv {
  const compileCacheDir = module.getCompileCacheDir();
  // biome-ignore lint/style/noProcessEnv: a variable of Node, not a setting of the service.
  const { NODE_USE_SYSTEM_CA } = process.env;
  return {
    // Node appends a folder for its version.
    ...(compileCacheDir && { NODE_COMPILE_CACHE: path.dirname(compileCacheDir) }),
    // Each thread reads it. The other variables about authorities are read once per process.
    ...(NODE_USE_SYSTEM_CA && { NODE_USE_SYSTEM_CA }),
  };
}
