"""The words that names of columns are made of, by what they tell."""

from __future__ import annotations


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


# English, and what logs are written in besides: German, French, Spanish, Portuguese, Italian (without their accents)
TRAIN = _set(
    "train training trn tr traininner trainer trainset trainings entrainement apprentissage entrenamiento treino treinamento "
    "addestramento"
)
VAL = _set(
    "val valid validation validate vl vld eval evaluation evaluate dev heldout holdout crossval cv validierung validierungs "
    "validacion validacao validazione"
)
TEST = _set("test testing")
SPLITS: dict[str, frozenset[str]] = {"train": TRAIN, "val": VAL, "test": TEST}

# words of other scripts and compounds, by what they mean; looked for inside a name, longer ones first
FOREIGN: dict[str, str] = {
    word: f" {ours} "
    for ours, theirs in {
        "train": "trainings 训练 訓練 学習 훈련 학습 обучения обучение обучающая",
        "val": "validierungs 验证 驗證 検証 검증 валидации валидация валидационная проверки",
        "test": "测试 測試 テスト 테스트 тест теста",
        "loss": "verlust 损失 損失 손실 потери потерь потеря ошибка",
        "accuracy": "genauigkeit 准确率 準確率 精度 正解率 정확도 точность",
        "lr": "lernrate 学习率 學習率 学習率 학습률",
        "epoch": "轮次 轮数 周期 エポック 에폭 에포크 эпоха эпохи",
        "step": "schritt 步数 步骤 ステップ 스텝 단계 шаг",
        "iteration": "迭代 反復 반복 итерация",
        "best": "最佳 最优 最高 最良 лучшая лучший",
        "saving": "保存 저장 сохранение",
        "time": "时间 用时 耗时 時間 시간 время",
    }.items()
    for word in theirs.split()
}

LOSS = _set("loss losses cost nll xent logloss objective objf criterion perte verlust perdida perda perdita")
WEAK = _set("nll xent logloss objective objf criterion")  # a loss, unless a plainer name stands next to it
# words that do not make a loss another loss
PLAIN = _set(
    "total overall mean avg average all the of per full combined global value lm model objective batch "
    "step iter iteration epoch running smooth smoothed ema logger log scalar summary sum output scalars "
    "current curr cur final last masked causal ce cross entropy crossentropy mse bce nll history metrics "
    "metric monitor main raw on set rank0 0 loss losses cost interval window updates curve plot function "
    "fn de du la le del der die da do"
)
# how a loss is computed, not of what: the whole loss when it stands alone, a part next to others
METHOD = _set("ce cross entropy crossentropy mse bce")
BY_STEP = _set("step batch iter iteration minibatch")
SMOOTH = _set("smooth smoothed ema running avg average")
# words that turn a loss into something else
NOT_LOSS = _set(
    "scale scaler weight weights coef coefficient best min minimum max maximum std var variance delta "
    "diff change ratio improvement lambda threshold patience target number num count rate"
)
REWARD = _set("reward rewards rew")
EPISODE = _set("episode episodic ep eprew rollout rollouts")
RETURN = _set("return returns ret")
GENERATOR = _set("g gen generator")
DISCRIMINATOR = _set("d disc discriminator critic")
ACCURACY = _set("acc accuracy top1 acc1 prec1 genauigkeit exactitude exactitud acuracia accuratezza")
# words that do not make an accuracy another metric
ACCURACY_PLAIN = _set(
    "categorical sparse binary top 1 mean token overall avg average epoch step batch total multiclass "
    "micro running masked metric metrics classification cls global log score"
)
# the share of wrong answers, the other side of an accuracy; "error" alone may be any distance
WRONG = _set("err error errors misclassification misclassified")
WRONG_TOLD = _set("rate 1 err1 error1 classification cls misclassification misclassified")
# metrics that are better when larger
UP = _set(
    "acc accuracy f1 fscore auc auroc auprc ap map map50 map5095 bleu rouge rouge1 rouge2 rougel meteor "
    "cider recall precision iou miou dice reward rewards return score pearson spearman correlation "
    "matthews mcc kappa r2 psnr ssim success hit hits ndcg mrr top1 top5 acc1 acc5 exact em fps winrate "
    "specificity sensitivity jaccard quality mar"
)
# and when smaller
DOWN = _set(
    "loss error err wer cer ter mae mse rmse rmsle mape ppl perplexity nll fid kid lpips bpc bpb eer mcd distance deviation"
)

# counters of updates, by how surely they are one
STEP_NAMES: dict[tuple[str, ...], int] = {
    tuple(name.split()): rank
    for rank, names in (
        (0, "global step,global steps,global iter,global iteration"),
        (1, "step,steps,paso,pasos,etape,passo,num updates,train step,optimizer step,optimizer steps,opt step"),
        (2, "iteration,iterations,iter,iters,it,n iter,itr,current step,current steps,total steps"),
        (2, "timesteps,total timesteps,timesteps total,num timesteps,env steps,num env steps,total env interacts"),
        (3, "updates,update,n updates"),
        (5, "batch,batches,batch idx,batch num,minibatch"),
        (6, "episode,episodes,total episodes,game,games,generation"),
    )
    for name in names.split(",")
}


# units of time in a name, by seconds
TIME_UNITS = {
    "ms": _set("ms msec millisecond milliseconds"),
    "min": _set("min mins minute minutes"),
    "h": _set("hour hours hr hrs"),
}


def _names(text: str) -> frozenset[tuple[str, ...]]:
    return frozenset(tuple(name.split()) for name in text.split(","))


EPOCHS = _names("epoch,epoche,epochen,epoque,epoca,epocas,epochs,ep,current epoch,epoch num,epoch number,epoch idx,n epoch")
SAMPLES = _names("samples,examples,consumed samples,num samples,samples seen,num examples,n samples,images seen")
TOKENS = _names("tokens,num tokens,tokens seen,consumed tokens,num input tokens seen,n tokens,total tokens")
