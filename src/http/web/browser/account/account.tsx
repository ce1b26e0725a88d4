import '../common.ts';
