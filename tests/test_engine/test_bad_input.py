"""What the tools answer to bad input: a non-zero exit status, and the reason on the last line of the screen."""

import pytest
import torch

from mmflatten.engine.checkpoints.files import what_is_wrong


def last_line(capsys) -> str:
    return capsys.readouterr().err.rstrip().splitlines()[-1]


def test_missing_config_names_it_and_what_is_there(tiny, start_tool):
    process = start_tool('train.py', tiny.folder / 'nothing.py')
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    assert output.rstrip().splitlines()[-1] == (
        f'config {tiny.folder}/nothing.py does not exist; {tiny.folder} has tiny.py')
    assert 'Traceback' not in output


def test_syntax_error_in_a_base_config_names_the_base_and_the_line(tmp_path, tools, capsys):
    base = tmp_path / 'base.py'
    base.write_text("a = 1\nmodel = dict(type='x'\nb = 2\n")
    child = tmp_path / 'child.py'
    child.write_text("_base_ = ['base.py']\n")
    assert tools.train([child]) == 1
    line = last_line(capsys)
    assert str(base) in line and 'line 2' in line and "model = dict(type='x'" in line, line


def test_unknown_command_line_option_ends_with_status_2(tiny, tools, capsys):
    with pytest.raises(SystemExit) as stop:
        tools.train([tiny.config, '--epochs', 3])
    assert stop.value.code == 2
    assert 'unrecognized arguments: --epochs' in last_line(capsys)


@pytest.mark.parametrize('option, words', [
    ('model.backbone.atn_types=LS', ["unknown argument 'atn_types' for FLattenSwin", "did you mean 'attn_types'?",
                                     'it accepts: arch, img_size, attn_types']),
    ('model.backbone.attn_types=LLS', ['attn_types', 'LLS', '2']),
    ('model.backbone.attn_types=LX', ['attn_types', 'LX', 'X']),
    ('model.backbone.arch.embed_dims=9', ['embed_dims', '9', 'num_heads']),
    ('model.backbone.type=mmflatten.FlattenSwin', ["unknown type 'mmflatten.FlattenSwin'", 'mmflatten.FLattenSwin']),
    ('default_scope=mmpretrian', ['default_scope (mmpretrian)', 'mmpretrain, mmdet, mmseg']),
])
def test_config_mistake_is_explained(tiny, tools, capsys, option, words):
    options = [option, 'model.backbone.arch.num_heads=(2,2)'] if 'embed_dims' in option else [option]
    assert tools.train([tiny.config, '--cfg-options', *options]) == 1
    line = last_line(capsys)
    assert all(word in line for word in words), line


def test_traceback_goes_to_the_log_and_on_request_to_the_screen(tiny, tools, capsys):
    arguments = [tiny.config, '--cfg-options', 'model.backbone.attn_types=LX']
    assert tools.train(arguments) == 1
    quiet = capsys.readouterr().err
    assert 'Traceback' not in quiet
    log = quiet.splitlines()[-2].removeprefix('The full traceback is in ')
    assert 'Traceback' in open(log, encoding='utf-8').read()
    assert log.startswith(str(tiny.work_dir))

    assert tools.train([*arguments, '--traceback']) == 1
    loud = capsys.readouterr().err
    assert 'Traceback' in loud and loud.splitlines()[-1] == quiet.splitlines()[-1]


def test_missing_data_folder_names_it_and_the_command_that_makes_it(tiny, tools, capsys):
    root = tiny.folder / 'data' / 'digits'
    assert tools.train([tiny.config, '--cfg-options', f'train_dataloader.dataset.data_root={root}']) == 1
    line = last_line(capsys)
    assert str(root) in line and f'python tools/dataset/prepare_digits.py --out {root}' in line


def test_annotation_file_that_is_not_json_is_named(tiny, tools, capsys):
    annotations = tiny.folder / 'instances.json'
    annotations.write_text('images: []')
    tiny.write_config(extra=f'''
        train_dataloader = dict(batch_size=4, num_workers=0, sampler=dict(type='DefaultSampler', shuffle=True),
                                dataset=dict(type='mmdet.CocoDataset', ann_file='{annotations}', pipeline=[]))
    ''')
    assert tools.train([tiny.config]) == 1
    line = last_line(capsys)
    assert f'annotation file {annotations} is not JSON' in line and 'line 1 column 1' in line


@pytest.mark.parametrize('workers', [0, 1])
@pytest.mark.parametrize('content', [b'no image', b''])
def test_undecodable_image_is_named(tiny, tools, capsys, workers, content):
    tiny.images[5].write_bytes(content)
    assert tools.train([tiny.config, '--cfg-options', f'train_dataloader.num_workers={workers}']) == 1
    line = last_line(capsys)
    assert line.startswith(f'image {tiny.images[5]} cannot be decoded') and 'replace the file' in line


@pytest.mark.parametrize('workers', [0, 1])
def test_image_that_disappears_is_named(tiny, tools, capsys, workers):
    (tiny.folder / 'list.txt').write_text(''.join(f'{path} 0\n' for path in tiny.images) + 'gone.png 1\n')
    options = [f'train_dataloader.num_workers={workers}', f'train_dataloader.dataset.ann_file={tiny.folder}/list.txt']
    assert tools.train([tiny.config, '--cfg-options', *options]) == 1
    line = last_line(capsys)
    assert f'{tiny.data}/gone.png does not exist' in line


@pytest.fixture
def trained(tiny, tools):
    assert tools.train([tiny.config, '--cfg-options', 'train_cfg.max_epochs=1', '--no-validate']) == 0
    return tiny.work_dir / 'epoch_1.pth'


def test_checkpoint_mistakes_are_explained(tiny, tools, capsys, trained):
    # One trained model serves all cases: making it takes longer than they do.
    other = ['--cfg-options', 'model.backbone.attn_types=SS']
    assert tools.test([tiny.config, trained, *other]) == 1
    line = last_line(capsys)
    assert f'checkpoint {trained} does not fit the model' in line
    assert 'missing: backbone.stages.0.' in line and 'not in the model: backbone.stages.0.' in line
    assert tools.train([tiny.config, '--resume', trained, *other]) == 1
    assert 'does not fit the model' in last_line(capsys)

    wider = ['--cfg-options', 'model.head.num_classes=3', 'data_preprocessor.num_classes=3']
    assert tools.test([tiny.config, trained, *wider]) == 1
    assert 'head.fc.weight torch.Size([2, 16]) instead of torch.Size([3, 16])' in last_line(capsys)

    strange = tiny.folder / 'strange.pth'
    torch.save(dict(weight=torch.zeros(3)), strange)
    assert tools.train([tiny.config, '--cfg-options', f'load_from={strange}']) == 1
    assert f'checkpoint {strange} has no key of the model: it begins with weight' in last_line(capsys)

    cut = tiny.folder / 'cut.pth'
    cut.write_bytes(trained.read_bytes()[:-2000])
    for tool, arguments in ((tools.test, [cut]), (tools.train, ['--resume', cut])):
        assert tool([tiny.config, *arguments]) == 1
        assert f'checkpoint {cut} cannot be read: it is truncated' in last_line(capsys)

    assert tools.test([tiny.config, tiny.folder / 'nowhere.pth']) == 1
    assert last_line(capsys) == f'checkpoint {tiny.folder}/nowhere.pth does not exist; check the path'


def test_resume_passes_over_a_damaged_checkpoint_and_refuses_when_all_are(tiny, tools, capsys):
    assert tools.train([tiny.config, '--resume', '--cfg-options', 'train_cfg.max_epochs=2', '--no-validate']) == 0
    assert 'holds no checkpoint yet, so training starts from the beginning' in capsys.readouterr().out
    newest = tiny.work_dir / 'epoch_2.pth'
    newest.write_bytes(newest.read_bytes()[:-3000])

    assert tools.train([tiny.config, '--resume', '--no-validate']) == 0
    output = capsys.readouterr().out
    assert f'Passing over checkpoint {newest}: it is truncated' in output
    assert 'resumed epoch: 1, iter: 4' in output

    for path in tiny.work_dir.glob('*.pth'):
        path.write_bytes(path.read_bytes()[:1000])
    assert tools.train([tiny.config, '--resume']) == 1
    assert f'none of the 3 checkpoints in {tiny.work_dir} is whole' in last_line(capsys)


def test_nan_loss_stops_training_and_leaves_the_last_good_checkpoint(tiny, tools, capsys):
    tiny.write_config(extra='''
        # After the first epoch the learning rate explodes.
        param_scheduler = [dict(type='MultiStepLR', by_epoch=True, milestones=[1], gamma=1e30)]
    ''')
    assert tools.train([tiny.config]) == 1
    line = last_line(capsys)
    good = tiny.work_dir / 'epoch_1.pth'
    assert line.startswith('the loss became NaN or infinite at iteration 6 (epoch 2): loss=nan')
    assert f'last good checkpoint, untouched: {good}' in line
    assert [path.name for path in tiny.work_dir.glob('*.pth')] == ['epoch_1.pth']
    assert what_is_wrong(good) is None
    weights = torch.load(good, weights_only=False)['state_dict'].values()
    assert all(bool(weight.isfinite().all()) for weight in weights)


def test_rare_loss_check_still_never_saves_broken_weights(tiny, tools, capsys):
    tiny.write_config(extra='''
        param_scheduler = [dict(type='MultiStepLR', by_epoch=True, milestones=[1], gamma=1e30)]
        default_hooks = dict(finite_loss=dict(interval=1000))
    ''')
    assert tools.train([tiny.config]) == 1
    line = last_line(capsys)
    assert 'the weights are NaN or infinite at iteration 8' in line and 'epoch_1.pth' in line
    assert [path.name for path in tiny.work_dir.glob('*.pth')] == ['epoch_1.pth']


def test_full_disk_keeps_the_old_checkpoint_and_names_the_new_one(tiny, start_tool):
    # A limit on the size of a file stands for the full disk: the write stops in the middle, with the same class of
    # error. The second checkpoint carries a ballast that exceeds it.
    limit = 230_000
    tiny.write_config(extra='''
        custom_imports = dict(imports=['grow'])
        custom_hooks = [dict(type='Grow')]
    ''')
    (tiny.folder / 'grow.py').write_text(
        'import resource, torch\n'
        'from mmengine.hooks import Hook\n'
        'from mmengine.registry import HOOKS\n'
        '@HOOKS.register_module()\n'
        'class Grow(Hook):\n'
        '    def before_save_checkpoint(self, runner, checkpoint):\n'
        f'        resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))\n'
        '        checkpoint["ballast"] = torch.zeros(40_000 * runner.epoch)\n')
    process = start_tool('train.py', tiny.config, '--no-validate', extra_path=tiny.folder)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    line = output.rstrip().splitlines()[-1]
    assert f'cannot write {tiny.work_dir}/epoch_2.pth' in line and 'raise the limit (ulimit -f)' in line
    assert f'the last good checkpoint is {tiny.work_dir}/epoch_1.pth' in line
    assert sorted(path.name for path in tiny.work_dir.iterdir() if path.is_file()) == [
        'epoch_1.pth', 'last_checkpoint', 'tiny.py']
    assert (tiny.work_dir / 'last_checkpoint').read_text() == str(tiny.work_dir / 'epoch_1.pth')
    assert what_is_wrong(tiny.work_dir / 'epoch_1.pth') is None


def test_options_that_cannot_work_are_refused(tiny, tools, capsys, monkeypatch):
    monkeypatch.setattr(torch.cuda, 'is_available', lambda: False)
    monkeypatch.delenv('RANK', raising=False)
    for option, words in ((['--amp'], '--amp needs a GPU'),
                          (['--auto-scale-lr'], 'auto_scale_lr.base_batch_size'),
                          (['--launcher', 'pytorch'], 'tools/dist_train.sh'),
                          (['--cfg-options', 'default_hooks.checkpoint.by_epoch=False'], 'by_epoch=False'),
                          (['--cfg-options', 'default_hooks.checkpoint.save_best=mAP'], 'accuracy/top1')):
        assert tools.train([tiny.config, *option]) == 1
        assert words in last_line(capsys)
    for option, words in ((['--out', 'results.txt'], '--out (results.txt) must end with .pkl'), ):
        assert tools.test([tiny.config, tiny.config, *option]) == 1
        assert words in last_line(capsys)
